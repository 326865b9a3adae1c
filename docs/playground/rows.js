// Unit rows, one per sample: random ones, the nearest ones, and how far their class means are from a frame.
//
// Every file of this page adds its functions to one object, because a browser loads no modules from a disk.
"use strict";
(function (page) {
  // Numbers in [0, 1) from seeds: sfc32, each stream by itself.
  function randomNumbers(...seeds) {
    let [a, b, c, d] = [0x9e3779b9, 0x243f6a88, 0xb7e15162, 1];
    for (const seed of seeds) {
      a = Math.imul(a ^ seed, 0x85ebca6b) >>> 0;
      b = (b + a) >>> 0;
    }
    function next() {
      const t = (a + b + d) | 0;
      d = (d + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (c << 21) | (c >>> 11);
      c = (c + t) | 0;
      return (t >>> 0) / 4294967296;
    }
    for (let i = 0; i < 15; i++) next();
    return next;
  }

  function shuffled(items, random) {
    const order = [...items];
    for (let i = order.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }

  // Rows are {count, dim, values}, values in one array of float64.
  function makeRows(count, dim, values = new Float64Array(count * dim)) {
    return { count, dim, values };
  }

  function randomRows(count, dim, nonnegative, seed) {
    const random = randomNumbers(seed, 1);
    const rows = makeRows(count, dim);
    for (let i = 0; i < rows.values.length; i++) {
      const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
      rows.values[i] = nonnegative ? Math.abs(normal) : normal;
    }
    project(rows, nonnegative);
    return rows;
  }

  // Replaces rows by the nearest unit rows; with `nonnegative`, by the nearest without negative entries. A row without
  // a positive entry becomes the axis of its largest entry.
  function project(rows, nonnegative) {
    const { count, dim, values } = rows;
    for (let i = 0; i < count; i++) {
      const start = i * dim;
      let largest = start;
      for (let j = start; j < start + dim; j++) if (values[j] > values[largest]) largest = j;
      if (nonnegative) {
        if (!(values[largest] > 0)) {
          values.fill(0, start, start + dim);
          values[largest] = 1;
        }
        for (let j = start; j < start + dim; j++) if (values[j] < 0) values[j] = 0;
      }
      let square = 0;
      for (let j = start; j < start + dim; j++) square += values[j] * values[j];
      const scale = 1 / Math.sqrt(square);
      for (let j = start; j < start + dim; j++) values[j] *= scale;
    }
  }

  function classMeans(rows, classes, k) {
    const { count, dim, values } = rows;
    const means = makeRows(k, dim);
    const counts = new Array(k).fill(0);
    for (let i = 0; i < count; i++) {
      counts[classes[i]]++;
      for (let j = 0; j < dim; j++) means.values[classes[i] * dim + j] += values[i * dim + j];
    }
    for (let c = 0; c < k; c++) for (let j = 0; j < dim; j++) means.values[c * dim + j] /= Math.max(1, counts[c]);
    return means;
  }

  function dot(a, i, b, j, dim) {
    let sum = 0;
    for (let m = 0; m < dim; m++) sum += a[i * dim + m] * b[j * dim + m];
    return sum;
  }

  // The distance of the Gram matrix of class means to that of a frame, || G/|G| - I/|I| ||, and their cosines [k][k].
  function measure(rows, classes, k) {
    const { values, dim } = classMeans(rows, classes, k);
    const gram = [];
    let square = 0;
    for (let a = 0; a < k; a++) {
      gram.push([]);
      for (let b = 0; b < k; b++) {
        gram[a].push(dot(values, a, values, b, dim));
        square += gram[a][b] ** 2;
      }
    }
    const norm = Math.sqrt(square);
    let distance = 0;
    for (let a = 0; a < k; a++) {
      for (let b = 0; b < k; b++) distance += (gram[a][b] / norm - (a === b ? 1 / Math.sqrt(k) : 0)) ** 2;
    }
    const cosines = gram.map((row, a) => row.map((value, b) => value / Math.sqrt(gram[a][a] * gram[b][b])));
    return { delta: Math.sqrt(distance), cosines };
  }

  Object.assign(page, { randomNumbers, shuffled, makeRows, randomRows, project, classMeans, dot, measure });
})((globalThis.orthoframe ??= {}));
