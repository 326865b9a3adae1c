// The features on the sphere, seen from an angle that the reader turns.
"use strict";
(function (page) {
  const VIEW = { yaw: 0.62, pitch: 0.5 };
  const HALF = Math.sqrt(0.5);
  const THIRD = Math.sqrt(1 / 3);
  // Where the axes of k dimensions are drawn. Three are themselves; more are corners, spread as far as they can be.
  const AXES = {
    3: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    4: [[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]].map((axis) => axis.map((value) => value * THIRD)),
    5: [[1, 0, 0], [-0.5, 3 * THIRD * 0.5, 0], [-0.5, -3 * THIRD * 0.5, 0], [0, 0, 1], [0, 0, -1]],
    6: [[HALF, HALF, 0], [HALF, -HALF, 0], [-HALF, HALF, 0], [-HALF, -HALF, 0], [0, 0, 1], [0, 0, -1]],
  };
  const SPREAD = 11; // pixels
  const GOLDEN = Math.PI * (3 - Math.sqrt(5));

  function arc(a, b, pieces = 24) {
    return Array.from({ length: pieces + 1 }, (_, i) => {
      const angle = (Math.PI / 2) * (i / pieces);
      return a.map((value, m) => value * Math.cos(angle) + b[m] * Math.sin(angle));
    });
  }

  // Two arcs of each of three families, which show the curvature of the octant.
  function gridLines() {
    const lines = [];
    for (let m = 0; m < 3; m++) {
      const [top, a, b] = [0, 1, 2].map((i) => AXES[3][(m + i) % 3]);
      for (const part of [1 / 3, 2 / 3]) {
        const angle = (part * Math.PI) / 2;
        lines.push(arc(top, a.map((value, i) => value * Math.cos(angle) + b[i] * Math.sin(angle))));
      }
    }
    return lines;
  }

  const GRID = gridLines();
  const EDGES = [0, 1, 2].map((m) => arc(AXES[3][m], AXES[3][(m + 1) % 3]));
  const CIRCLES = [0, 1, 2].map((m) =>
    [0, 1, 2, 3].flatMap((quarter) => {
      const [a, b] = [AXES[3][m], AXES[3][(m + 1) % 3]];
      const signs = [[1, 1], [-1, 1], [-1, -1], [1, -1]][quarter];
      const from = (quarter % 2 ? b : a).map((value) => value * (quarter % 2 ? signs[1] : signs[0]));
      const to = (quarter % 2 ? a : b).map((value) => value * (quarter % 2 ? signs[0] : signs[1]));
      return arc(from, to);
    }),
  );

  class Camera {
    constructor({ yaw, pitch }, scale, x, y) {
      const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
      this.right = [-sy, cy, 0];
      this.up = [-sp * cy, -sp * sy, cp];
      this.towards = [cp * cy, cp * sy, sp];
      Object.assign(this, { scale, middle: [x, y] });
    }

    see(point) {
      let [x, y, depth] = [0, 0, 0];
      for (let m = 0; m < 3; m++) {
        x += point[m] * this.right[m];
        y += point[m] * this.up[m];
        depth += point[m] * this.towards[m];
      }
      return [this.middle[0] + this.scale * x, this.middle[1] - this.scale * y, depth];
    }

    // Brings the middle of what these points cover to the middle of the picture.
    centre(points) {
      const [x, y] = this.middle;
      const seen = points.map((point) => this.see(point));
      const middle = (m) => (Math.min(...seen.map((at) => at[m])) + Math.max(...seen.map((at) => at[m]))) / 2;
      this.middle = [2 * x - middle(0), 2 * y - middle(1)];
    }
  }

  function trace(context, camera, points) {
    points.forEach((point, i) => {
      const [x, y] = camera.see(point);
      if (i) context.lineTo(x, y);
      else context.moveTo(x, y);
    });
  }

  function drawOctant(context, camera, colours) {
    context.beginPath();
    trace(context, camera, EDGES.flat());
    context.closePath();
    context.fillStyle = colours.surface;
    context.fill();
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.beginPath();
    for (const line of GRID) trace(context, camera, line);
    context.stroke();
    context.lineWidth = 2;
    context.beginPath();
    for (const edge of EDGES) trace(context, camera, edge);
    context.stroke();
  }

  function drawBall(context, camera, colours) {
    context.beginPath();
    context.arc(...camera.middle, camera.scale, 0, 2 * Math.PI);
    context.fillStyle = colours.surface;
    context.fill();
    context.strokeStyle = colours.line;
    context.lineWidth = 2;
    context.stroke();
    for (const circle of CIRCLES) {
      for (const front of [false, true]) {
        context.beginPath();
        circle.forEach((point, i) => {
          const next = circle[Math.min(i + 1, circle.length - 1)];
          const [x, y, depth] = camera.see(point);
          if (depth >= 0 !== front) return;
          context.moveTo(x, y);
          context.lineTo(...camera.see(next).slice(0, 2));
        });
        context.globalAlpha = front ? 1 : 0.4;
        context.lineWidth = 1;
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  function drawAxes(context, camera, colours, axes) {
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    const origin = camera.see([0, 0, 0]);
    axes.forEach((axis, m) => {
      const tip = camera.see(axis);
      context.strokeStyle = colours.line;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(origin[0], origin[1]);
      context.lineTo(tip[0], tip[1]);
      context.stroke();
      const label = camera.see(axis.map((value) => value * 0.55)); // not at the tip, where the points gather
      context.lineWidth = 4;
      context.strokeStyle = colours.surface;
      context.strokeText(`axis ${m + 1}`, label[0], label[1]);
      context.fillStyle = colours.faint;
      context.fillText(`axis ${m + 1}`, label[0], label[1]);
    });
  }

  function drawCorners(context, camera, colours, axes) {
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.globalAlpha = 0.6;
    context.beginPath();
    axes.forEach((a, m) => axes.slice(0, m).forEach((b) => trace(context, camera, [a, b])));
    context.stroke();
    context.globalAlpha = 1;
  }

  // Where a row is drawn. In three dimensions, where it is. In more, among the corners that stand for the axes: at their
  // mean, weighted by the squares of its entries, which add up to 1.
  function place(values, i, dim, axes) {
    const point = [0, 0, 0];
    for (let c = 0; c < axes.length; c++) {
      const value = values[i * dim + c];
      const weight = axes.length === 3 ? value : value * Math.abs(value);
      for (let m = 0; m < 3; m++) point[m] += weight * axes[c][m];
    }
    return point;
  }

  // Whether a row has a part outside of the dimensions that are drawn.
  function leans({ values, dim }, i, k) {
    return values.subarray(i * dim + k, (i + 1) * dim).some((value) => Math.abs(value) > 0.05);
  }

  function drawRing(context, colours, x, y) {
    context.save();
    context.beginPath();
    context.arc(x, y, 11, 0, 2 * Math.PI);
    context.lineWidth = 2.5;
    context.strokeStyle = colours.warn;
    context.stroke();
    context.restore();
  }

  // Draws the rows and the means of their classes. Points that coincide are spread by a few pixels.
  function drawSphere(canvas, { rows, classes, k, settings }, view, colours, covered) {
    const { context, width, height } = page.prepared(canvas);
    const axes = AXES[k];
    const octant = k === 3 && settings.relu;
    const free = width - covered; // beside the table
    const scale = Math.min(free, height) * (octant ? 0.57 : 0.42);
    const middle = Math.min(height / 2, 0.58 * free); // beside the table also where there is more height than width
    const camera = new Camera(view, scale, free / 2, middle + (octant ? 12 : 0)); // letters are above their points
    if (octant) {
      camera.centre([[0, 0, 0], ...EDGES.flat()]);
      drawOctant(context, camera, colours);
    } else if (k === 3) drawBall(context, camera, colours);
    else drawCorners(context, camera, colours, axes);
    drawAxes(context, camera, colours, axes);
    const points = [];
    for (let i = 0; i < rows.count; i++) {
      const [x, y, depth] = camera.see(place(rows.values, i, rows.dim, axes));
      const turn = i * GOLDEN;
      const spread = SPREAD * Math.sqrt((i * Math.SQRT2) % 1); // neighbours are of different classes
      points.push([x + spread * Math.cos(turn), y + spread * Math.sin(turn), depth, classes[i], leans(rows, i, k)]);
    }
    points.sort((a, b) => a[2] - b[2]);
    const radius = rows.count > 80 ? 3.5 : 4.5;
    context.lineWidth = 1;
    context.strokeStyle = colours.panel;
    for (const [x, y, depth, c, leaning] of points) {
      if (leaning) drawRing(context, colours, x, y);
      context.globalAlpha = octant || depth > -0.2 ? 0.9 : 0.45;
      context.fillStyle = colours.classes[c];
      context.beginPath();
      page.addMark(context, c, x, y, radius);
      context.fill();
      context.stroke();
    }
    context.globalAlpha = 1;
    drawMeans(context, camera, colours, page.classMeans(rows, classes, k), axes, free);
  }

  function drawMeans(context, camera, colours, means, axes, free) {
    context.font = "bold 13px system-ui, sans-serif";
    const taken = [];
    for (let c = 0; c < means.count; c++) {
      const [left, low] = camera.see(place(means.values, c, means.dim, axes));
      // Beside the points, and beside other means: to the right of them while there is room, else above.
      let [x, y] = [left, low - 24];
      while (taken.some(([a, b]) => Math.hypot(a - x, b - y) < 22)) [x, y] = x + 34 < free ? [x + 22, y] : [left, y - 22];
      taken.push([x, y]);
      context.beginPath();
      context.arc(x, y, 10, 0, 2 * Math.PI);
      context.fillStyle = colours.panel;
      context.fill();
      context.lineWidth = 2;
      context.strokeStyle = colours.classes[c];
      context.stroke();
      context.fillStyle = colours.text;
      context.fillText(page.NAMES[c], x, y + 0.5);
    }
  }

  Object.assign(page, { VIEW, drawSphere });
})((globalThis.orthoframe ??= {}));
