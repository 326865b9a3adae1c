// The batch interaction graph: samples of a class that share batches, and class pairs that batches push apart.
"use strict";
(function (page) {
  const { listed } = page;
  const ALL_EDGES = 10; // samples of a class in a batch up to which all edges are drawn; of more, a ring
  const [MARGIN, ABOVE, BESIDE] = [6, 22, 86]; // pixels for labels

  // Classes around an ellipse, and the samples of each around its place; labels are outside, above or beside them.
  function layout(sizes, width, height) {
    const k = sizes.length;
    const ring = height * (k > 4 ? 0.085 : 0.12);
    const angles = sizes.map((_, c) => -Math.PI / 2 + (2 * Math.PI * c) / k);
    const lowest = Math.max(...angles.map(Math.sin));
    const below = lowest > 0.99 ? ABOVE : 0;
    const tall = (height - 2 * (ring + MARGIN) - ABOVE - below) / (1 + lowest);
    const wide = Math.min(width / 2 - ring - BESIDE, 1.4 * tall);
    const places = angles.map((angle, c) => ({
      x: width / 2 + wide * Math.cos(angle),
      y: ring + MARGIN + ABOVE + tall * (1 + Math.sin(angle)),
      side: Math.abs(Math.cos(angle)) > 0.5 ? Math.sign(Math.cos(angle)) : 0,
      radius: sizes[c] === 1 ? 0 : ring,
    }));
    const points = sizes.flatMap((size, c) =>
      Array.from({ length: size }, (_, i) => {
        const angle = -Math.PI / 2 + (2 * Math.PI * i) / size;
        const { x, y, radius } = places[c];
        return [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
      }),
    );
    return { places, points, ring, middle: places.reduce((sum, { y }) => sum + y, 0) / k };
  }

  function line(context, [ax, ay], [bx, by]) {
    context.moveTo(ax, ay);
    context.lineTo(bx, by);
  }

  // A line between two classes: solid where a batch pushes them apart, else in the colour of a warning with a cross,
  // dashed where they meet as single rows only and dotted where they never meet.
  function drawPair(context, colours, { places }, { missing, scan, byFrame }, a, b) {
    const apart = missing.some(([c, d]) => c === a && d === b);
    const [from, to] = [places[a], places[b]];
    const far = Math.hypot(to.x - from.x, to.y - from.y);
    const at = (part) => [from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part];
    const [start, end] = [(from.radius + 8) / far, 1 - (to.radius + 8) / far];
    context.strokeStyle = apart ? colours.warn : colours.faint;
    context.lineWidth = apart ? 2.5 : 2;
    context.setLineDash(apart || !scan.met[a][b] ? (scan.touched[a][b] ? [8, 5] : [2, 5]) : []);
    context.globalAlpha = byFrame && !scan.met[a][b] ? 0.4 : 1;
    context.beginPath();
    line(context, at(start), at(end));
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (apart) drawCross(context, colours, ...at((start + end) / 2));
  }

  function drawCross(context, colours, x, y) {
    context.lineWidth = 3;
    context.strokeStyle = colours.warn;
    context.beginPath();
    line(context, [x - 6, y - 6], [x + 6, y + 6]);
    line(context, [x - 6, y + 6], [x + 6, y - 6]);
    context.stroke();
  }

  function drawEdges(context, points, classes, k, batches) {
    context.beginPath();
    for (const batch of batches) {
      for (let c = 0; c < k; c++) {
        const own = [...new Set(batch)].filter((sample) => classes[sample] === c).sort((a, b) => a - b);
        if (own.length <= ALL_EDGES) {
          own.forEach((sample, i) => own.slice(0, i).forEach((other) => line(context, points[sample], points[other])));
        } else {
          own.forEach((sample, i) => line(context, points[sample], points[own[(i + 1) % own.length]]));
        }
      }
    }
    context.stroke();
  }

  // Samples of a broken class that are not in its largest piece are hollow, in the colour of a warning.
  function strays({ broken, absent, byFrame, scan }) {
    if (byFrame) return new Set(absent);
    const roots = scan.components.roots();
    const sizes = new Map();
    for (const root of roots) sizes.set(root, (sizes.get(root) ?? 0) + 1);
    const found = new Set();
    for (const c of broken) {
      const own = roots.filter((_, sample) => scan.classes[sample] === c);
      const largest = own.reduce((best, root) => (sizes.get(root) > sizes.get(best) ? root : best));
      roots.forEach((root, sample) => scan.classes[sample] === c && root !== largest && found.add(sample));
    }
    return found;
  }

  function drawGraph(canvas, { certificate, classes, k, settings, scanned }, colours) {
    const { context, width, height } = page.prepared(canvas);
    const plan = layout(settings.sizes, width, height);
    for (let a = 0; a < k; a++) for (let b = a + 1; b < k; b++) drawPair(context, colours, plan, certificate, a, b);
    context.strokeStyle = colours.faint;
    context.lineWidth = 1;
    context.globalAlpha = 0.7;
    drawEdges(context, plan.points, classes, k, scanned);
    context.globalAlpha = 1;
    const apart = strays(certificate);
    plan.points.forEach(([x, y], sample) => {
      const c = classes[sample];
      context.beginPath();
      page.addMark(context, c, x, y, Math.max(2, Math.min(4.5, (2.6 * plan.ring) / settings.sizes[c])));
      context.fillStyle = apart.has(sample) ? colours.panel : colours.classes[c];
      context.strokeStyle = apart.has(sample) ? colours.warn : colours.panel;
      context.lineWidth = apart.has(sample) ? 2 : 1;
      context.fill();
      context.stroke();
    });
    plan.places.forEach((place, c) => drawLabel(context, colours, plan, place, c, certificate));
  }

  // What the graph shows, for those who do not see it: every class in pieces, and every pair that is not pushed apart.
  function describeGraph({ broken, pieces, missing, absent, byFrame, scan, names }) {
    if (byFrame) return absent.length ? `In no batch: sample${absent.length > 1 ? "s" : ""} ${listed(absent)}.` : "Every sample is in a batch.";
    const parts = broken.map((c) => `${names[c]} (${pieces[c]} components)`);
    const said = [parts.length ? `Disconnected classes: ${listed(parts)}.` : "Every class is connected."];
    const pairs = (met) => missing.filter(([a, b]) => scan.touched[a][b] === met).map(([a, b]) => `${names[a]} with ${names[b]}`);
    const [never, singly] = [pairs(false), pairs(true)];
    if (never.length) said.push(`Pairs that never meet: ${listed(never)}.`);
    if (singly.length) said.push(`Pairs that share batches only as singletons: ${listed(singly)}.`);
    if (!missing.length) said.push("Every pair of classes is pushed apart.");
    return said.join(" ");
  }

  function drawLabel(context, colours, { ring, middle }, { x, y, side }, c, { byFrame, pieces }) {
    const parted = !byFrame && pieces[c] > 1;
    const beside = x + side * (ring + 12);
    const above = y < middle ? y - ring - 14 : y + ring + 14;
    const lines = parted ? (side ? [page.NAMES[c], `${pieces[c]} components`] : [`${page.NAMES[c]}: ${pieces[c]} components`]) : [page.NAMES[c]];
    context.font = "bold 14px system-ui, sans-serif";
    context.textAlign = side ? (side > 0 ? "left" : "right") : "center";
    context.textBaseline = "middle";
    context.fillStyle = parted ? colours.warn : colours.text;
    context.strokeStyle = colours.panel;
    context.lineWidth = 4;
    lines.forEach((text, i) => {
      const at = side ? [beside, y + 18 * (i - (lines.length - 1) / 2)] : [x, above];
      context.strokeText(text, ...at);
      context.fillText(text, ...at);
    });
  }

  Object.assign(page, { drawGraph, describeGraph });
})((globalThis.orthoframe ??= {}));
