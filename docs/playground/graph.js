// The batch interaction graph: samples of a class that share batches, and class pairs that batches push apart.
"use strict";
(function (page) {
  const ALL_EDGES = 10; // up to so many samples of a class in a batch all edges are drawn; of more, a ring
  const LABEL = 17; // pixels from a ring to its label

  // Classes around a circle, and the samples of each around its place.
  function layout(sizes, width, height) {
    const k = sizes.length;
    const radius = height * (k > 4 ? 0.1 : 0.125);
    const room = radius + LABEL + 8; // beyond the place of a class
    const angles = sizes.map((_, c) => -Math.PI / 2 + (2 * Math.PI * c) / k);
    const lowest = Math.max(...angles.map(Math.sin));
    const tall = (height - 2 * room) / (1 + lowest);
    const wide = Math.min(width / 2 - room - 10, 1.3 * tall);
    const places = angles.map((angle) => [width / 2 + wide * Math.cos(angle), room + tall * (1 + Math.sin(angle))]);
    const points = sizes.flatMap((size, c) =>
      Array.from({ length: size }, (_, i) => {
        const angle = -Math.PI / 2 + (2 * Math.PI * i) / size;
        const own = size === 1 ? 0 : radius;
        return [places[c][0] + own * Math.cos(angle), places[c][1] + own * Math.sin(angle)];
      }),
    );
    return { places, radius, points };
  }

  function line(context, [ax, ay], [bx, by]) {
    context.moveTo(ax, ay);
    context.lineTo(bx, by);
  }

  // A line between two classes: solid where a batch pushes them apart, else in the colour of a warning with a cross,
  // dashed where they meet as single rows only and dotted where they never meet.
  function drawPair(context, colours, { places, radius }, { missing, scan, byFrame }, a, b) {
    const apart = missing.some(([c, d]) => c === a && d === b);
    const [from, to] = [places[a], places[b]];
    const far = Math.hypot(to[0] - from[0], to[1] - from[1]);
    const inset = (radius + 12) / far;
    const at = (part) => [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
    context.strokeStyle = apart ? colours.warn : colours.faint;
    context.lineWidth = apart ? 2.5 : 2;
    context.setLineDash(apart || !scan.met[a][b] ? (scan.touched[a][b] ? [8, 5] : [2, 5]) : []);
    context.globalAlpha = byFrame && !scan.met[a][b] ? 0.4 : 1;
    context.beginPath();
    line(context, at(inset), at(1 - inset));
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (apart) drawCross(context, colours, ...at(0.5));
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

  function drawGraph(canvas, { certificate, classes, k, settings, batches }, colours) {
    const { context, width, height } = page.prepared(canvas);
    const plan = layout(settings.sizes, width, height);
    for (let a = 0; a < k; a++) for (let b = a + 1; b < k; b++) drawPair(context, colours, plan, certificate, a, b);
    context.strokeStyle = colours.faint;
    context.lineWidth = 1;
    context.globalAlpha = 0.7;
    drawEdges(context, plan.points, classes, k, batches);
    context.globalAlpha = 1;
    const apart = strays(certificate);
    plan.points.forEach(([x, y], sample) => {
      const c = classes[sample];
      context.beginPath();
      page.addMark(context, c, x, y, Math.max(2, Math.min(4.5, (2.6 * plan.radius) / settings.sizes[c])));
      context.fillStyle = apart.has(sample) ? colours.panel : colours.classes[c];
      context.strokeStyle = apart.has(sample) ? colours.warn : colours.panel;
      context.lineWidth = apart.has(sample) ? 2 : 1;
      context.fill();
      context.stroke();
    });
    context.font = "bold 14px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    plan.places.forEach(([x, y], c) => {
      const pieces = certificate.byFrame ? 1 : certificate.pieces[c];
      context.fillStyle = pieces > 1 ? colours.warn : colours.text;
      const below = y > height / 2 + 1 ? 1 : -1;
      const text = pieces > 1 ? `${page.NAMES[c]}: ${pieces} pieces` : page.NAMES[c];
      const place = y + below * (plan.radius + LABEL);
      context.lineWidth = 4;
      context.strokeStyle = colours.panel;
      context.strokeText(text, x, place);
      context.fillText(text, x, place);
    });
  }

  Object.assign(page, { drawGraph });
})((globalThis.orthoframe ??= {}));
