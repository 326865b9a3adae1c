// The loss with its floor, and the distance to a frame, over the steps of a run; the cosines of class means.
"use strict";
(function (page) {
  const MOST_POINTS = 512;

  // What a run has been: at most MOST_POINTS points, evenly spaced; when there are more, every second one is left out.
  class History {
    constructor() {
      this.points = [];
      this.stride = 1;
    }

    add(point) {
      if (point.step % this.stride) {
        this.latest = point;
        return;
      }
      this.latest = null;
      this.points.push(point);
      if (this.points.length < MOST_POINTS) return;
      this.stride *= 2;
      this.points = this.points.filter(({ step }) => step % this.stride === 0);
    }

    get all() {
      return this.latest ? [...this.points, this.latest] : this.points;
    }
  }

  function curve(context, points, value, x, y) {
    context.beginPath();
    points.forEach((point, i) => {
      if (i) context.lineTo(x(point.step), y(value(point)));
      else context.moveTo(x(point.step), y(value(point)));
    });
    context.stroke();
  }

  function niceNumber(value) {
    return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
  }

  // Two panels above each other: the loss over its floor, and the distance to a frame.
  function drawChart(canvas, history, before, colours) {
    const { context, width, height } = page.prepared(canvas);
    const points = history.all;
    const others = before?.all ?? [];
    const end = points.at(-1).step;
    const last = Math.max(60, end, Math.min(others.at(-1)?.step ?? 0, 4 * end + 200));
    const shown = others.filter(({ step }) => step <= last);
    const [left, right] = [44, width - 10];
    const x = (step) => left + ((right - left) * step) / last;
    const losses = [...points, ...shown].flatMap(({ loss, floor }) => [loss, floor]);
    const panels = [
      { name: "loss", top: 18, bottom: height * 0.56, low: Math.min(...losses), high: Math.max(...losses), of: (p) => p.loss },
      { name: "Δ", top: height * 0.56 + 26, bottom: height - 16, low: 0, high: 1, of: (p) => p.delta },
    ];
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const { name, top, bottom, low, high, of } of panels) {
      const room = Math.max(high - low, 1e-6) * 0.06;
      const y = (value) => bottom - ((bottom - top) * (value - low + room)) / (Math.max(high - low, 1e-6) + 2 * room);
      context.lineWidth = 1;
      context.strokeStyle = colours.line;
      context.strokeRect(left, top, right - left, bottom - top);
      context.fillStyle = colours.faint;
      context.textAlign = "right";
      context.fillText(niceNumber(high), left - 5, y(high));
      if (y(low) - y(high) > 14) context.fillText(niceNumber(low), left - 5, y(low));
      context.textAlign = "left";
      context.fillText(name, left, top - 9);
      if (name === "Δ") subscript(context, "GM", left, top - 9);
      context.lineWidth = 1.5;
      context.strokeStyle = colours.faint;
      context.globalAlpha = 0.55;
      curve(context, shown, of, x, y);
      context.globalAlpha = 1;
      if (name === "loss") {
        context.setLineDash([6, 4]);
        context.strokeStyle = colours.warn;
        curve(context, points.length > 1 ? points : [{ ...points[0], step: 0 }, { ...points[0], step: last }], (p) => p.floor, x, y);
        context.setLineDash([]);
      }
      context.lineWidth = 2;
      context.strokeStyle = colours.accent;
      curve(context, points, of, x, y);
      context.beginPath();
      context.arc(x(end), y(of(points.at(-1))), 3.5, 0, 2 * Math.PI);
      context.fillStyle = colours.accent;
      context.fill();
    }
    drawKey(context, colours, right, shown.length > 0);
    context.textAlign = "right";
    context.fillStyle = colours.faint;
    context.fillText(`step ${last}`, right, height - 7);
    context.textAlign = "left";
    context.fillText("0", left, height - 7);
  }

  function subscript(context, text, x, y) {
    const start = x + context.measureText("Δ").width;
    context.save();
    context.font = "8px system-ui, sans-serif";
    context.fillText(text, start + 1, y + 3);
    context.restore();
  }

  function drawKey(context, colours, right, hasOther) {
    const entries = [["floor", colours.warn, [6, 4], 1]];
    if (hasOther) entries.push(["run before", colours.faint, [], 0.55]);
    let x = right;
    for (const [text, colour, dash, alpha] of entries) {
      context.textAlign = "right";
      context.fillStyle = colours.faint;
      context.fillText(text, x, 9);
      x -= context.measureText(text).width + 5;
      context.globalAlpha = alpha;
      context.strokeStyle = colour;
      context.lineWidth = 2;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(x - 20, 9);
      context.lineTo(x, 9);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
      x -= 32;
    }
  }

  // Fills a table with the cosines of class means; a cell is darker the larger its cosine is, and lined below 0.
  function fillCosines(table, cosines) {
    const k = cosines.length;
    if (table.rows.length !== k + 1) {
      const names = page.NAMES.slice(0, k);
      const head = `<tr><td></td>${names.map((name) => `<th scope="col">${name}</th>`).join("")}</tr>`;
      const body = names.map((name) => `<tr><th scope="row">${name}</th>${"<td></td>".repeat(k)}</tr>`);
      table.tBodies[0].innerHTML = head + body.join("");
    }
    cosines.forEach((row, a) => {
      row.forEach((value, b) => {
        const cell = table.rows[a + 1].cells[b + 1];
        const text = (Object.is(Math.round(value * 100), -0) ? 0 : value).toFixed(2).replace("-", "−");
        if (cell.textContent !== text) cell.textContent = text;
        cell.style.setProperty("--part", `${Math.round(100 * Math.min(1, Math.abs(value)))}%`);
        cell.classList.toggle("negative", value < -0.005);
      });
    });
  }

  Object.assign(page, { History, drawChart, fillCosines });
})((globalThis.orthoframe ??= {}));
