// The supervised contrastive loss and the frame term over a list of batches: values, gradients and floors.
"use strict";
(function (page) {
  const { dot } = page;

  // log(e^a + e^b)
  function addedLogs(a, b) {
    const [low, high] = a < b ? [a, b] : [b, a];
    return low === -Infinity ? high : high + Math.log1p(Math.exp(low - high));
  }

  function countClasses(batch, classes, k) {
    const counts = new Array(k).fill(0);
    for (const sample of batch) counts[classes[sample]]++;
    return counts;
  }

  let exponentials = new Float64Array(0); // of pairs, kept between the two passes

  // Adds the gradient of the terms l_i = log sum_{l != i} e^(s_il/tau) - mean over positives of s_ij/tau of one batch to
  // `gradient`, and returns their sum. Cosines of positives count as s - m.
  function addContrastive(rows, classes, k, batch, { temperature, margin }, gradient) {
    const { values, dim } = rows;
    const size = batch.length;
    const counts = countClasses(batch, classes, k);
    if (exponentials.length < size * size) exponentials = new Float64Array(size * size);
    const sums = new Float64Array(size);
    const pulls = new Float64Array(size);
    for (let i = 0; i < size; i++) {
      for (let j = 0; j < i; j++) {
        const same = classes[batch[i]] === classes[batch[j]];
        const cosine = dot(values, batch[i], values, batch[j], dim) - (same ? margin : 0);
        const exponential = Math.exp((cosine - 1) / temperature); // at most about 1
        exponentials[i * size + j] = exponential;
        sums[i] += exponential;
        sums[j] += exponential;
        if (same) {
          pulls[i] += cosine;
          pulls[j] += cosine;
        }
      }
    }
    let total = 0;
    const pushes = new Float64Array(size); // 0 for an anchor without a positive, which has no term
    for (let i = 0; i < size; i++) {
      const positives = counts[classes[batch[i]]] - 1;
      if (positives < 1) continue;
      total += Math.log(sums[i]) + 1 / temperature - pulls[i] / positives / temperature;
      pushes[i] = 1 / sums[i];
    }
    for (let i = 0; i < size; i++) {
      for (let j = 0; j < i; j++) {
        let weight = exponentials[i * size + j] * (pushes[i] + pushes[j]);
        if (classes[batch[i]] === classes[batch[j]]) weight -= 2 / (counts[classes[batch[i]]] - 1);
        weight /= temperature;
        const [a, b] = [batch[i] * dim, batch[j] * dim];
        for (let m = 0; m < dim; m++) {
          gradient[a + m] += weight * values[b + m];
          gradient[b + m] += weight * values[a + m];
        }
      }
    }
    return total;
  }

  // The lowest sum of the terms of non-negative rows: N_c log(N_c - 1 + (N - N_c) e^(-(1 - m)/tau)) of each class.
  function contrastiveFloor(counts, { temperature, margin }) {
    const size = counts.reduce((sum, count) => sum + count, 0);
    let floor = 0;
    for (const count of counts) {
      if (count < 2) continue;
      floor += count * addedLogs(Math.log(count - 1), Math.log(size - count) - (1 - margin) / temperature);
    }
    return floor;
  }

  // The frame: class c owns the axes c, c + k, c + 2k, ...
  function makeFrame(k, dim) {
    const frame = page.makeRows(k, dim);
    for (let c = 0; c < k; c++) {
      const axes = Math.ceil((dim - c) / k);
      for (let j = c; j < dim; j += k) frame.values[c * dim + j] = 1 / Math.sqrt(axes);
    }
    return frame;
  }

  // The same for the frame terms -log softmax_y(h_i.W_c/tau + log q_c) of samples that are in the batches `times` often.
  // With m, the cosine of the own class counts as h_i.W_y - m.
  function addFrame(rows, classes, k, times, shares, { temperature, margin }, gradient) {
    const { count, dim, values } = rows;
    const frame = makeFrame(k, dim);
    const whole = shares.reduce((sum, share) => sum + share, 0);
    let total = 0;
    const logits = new Float64Array(k);
    for (let i = 0; i < count; i++) {
      if (!times[i]) continue;
      const own = classes[i];
      let highest = -Infinity;
      for (let c = 0; c < k; c++) {
        const cosine = dot(values, i, frame.values, c, dim) - (c === own ? margin : 0);
        logits[c] = cosine / temperature + Math.log(shares[c] / whole);
        highest = Math.max(highest, logits[c]);
      }
      let sum = 0;
      for (let c = 0; c < k; c++) sum += Math.exp(logits[c] - highest);
      total += times[i] * (highest + Math.log(sum) - logits[own]);
      for (let c = 0; c < k; c++) {
        const weight = (times[i] * (Math.exp(logits[c] - highest) / sum - (c === own ? 1 : 0))) / temperature;
        for (let m = 0; m < dim; m++) gradient[i * dim + m] += weight * frame.values[c * dim + m];
      }
    }
    return total;
  }

  // log(1 + sum_{c != y} (q_c/q_y) e^(-(1 - m)/tau))
  function frameFloor(own, shares, { temperature, margin }) {
    const others = shares.reduce((sum, share, c) => (c === own ? sum : sum + share), 0);
    return addedLogs(0, Math.log(others / shares[own]) - (1 - margin) / temperature);
  }

  // What is minimised: the loss of a list of batches, as a function of rows that returns its value and gradient. Both
  // are means, over anchors or, for the frame term, over rows; `divisor` is how many these are.
  function makeObjective(classes, k, batches, options) {
    const counts = batches.map((batch) => countClasses(batch, classes, k));
    const times = new Array(classes.length).fill(0);
    for (const batch of batches) for (const sample of batch) times[sample]++;
    const shares = counts.reduce((sum, here) => sum.map((share, c) => share + here[c]), new Array(k).fill(0));
    for (let c = 0; c < k; c++) shares[c] = Math.max(1, shares[c]); // of classes that are in no batch
    const byFrame = options.loss === "frame";
    let divisor = 0;
    let floor = 0;
    if (byFrame) {
      times.forEach((number, sample) => {
        divisor += number;
        floor += number && number * frameFloor(classes[sample], shares, options);
      });
    } else {
      for (const here of counts) {
        for (const count of here) divisor += count > 1 ? count : 0;
        floor += contrastiveFloor(here, options);
      }
    }
    const scale = 1 / Math.max(1, divisor); // without a term, everything is 0
    function evaluate(rows) {
      const gradient = new Float64Array(rows.values.length);
      let total = 0;
      if (byFrame) total = addFrame(rows, classes, k, times, shares, options, gradient);
      else for (const batch of batches) total += addContrastive(rows, classes, k, batch, options, gradient);
      for (let i = 0; i < gradient.length; i++) gradient[i] *= scale;
      return { value: total * scale, gradient };
    }
    return { evaluate, floor: floor * scale, divisor };
  }

  Object.assign(page, { countClasses, makeObjective });
})((globalThis.orthoframe ??= {}));
