// Which samples meet in the batches of an epoch.
"use strict";
(function (page) {
  const NAMES = ["A", "B", "C", "D", "E", "F"];
  const [PARTITION, EPOCH, EXAMPLES] = [2, 3, 4]; // streams of random numbers

  // The class of each sample, from the class sizes.
  function classesOf(sizes) {
    return sizes.flatMap((size, c) => new Array(size).fill(c));
  }

  function cut(order, size) {
    const batches = [];
    for (let start = 0; start < order.length; start += size) batches.push(order.slice(start, start + size));
    return batches;
  }

  // The batches of an epoch, lists of samples. `full` is one batch of all; `partition` cuts one shuffled order into
  // batches that never change, `reshuffle` a new order in each epoch; `bound` is the partition with one fixed sample of
  // each class added to every batch; `edited` is a given list.
  function batchesOf(sizes, { plan, batchSize, seed, batches }, epoch = 0) {
    const samples = classesOf(sizes).map((_, sample) => sample);
    if (plan === "edited") return batches.map((batch) => [...batch]);
    if (plan === "full") return [samples];
    if (plan === "reshuffle") return cut(page.shuffled(samples, page.randomNumbers(seed, EPOCH, epoch)), batchSize);
    const parts = cut(page.shuffled(samples, page.randomNumbers(seed, PARTITION)), batchSize);
    if (plan === "partition") return parts;
    const random = page.randomNumbers(seed, EXAMPLES);
    let first = 0;
    const examples = sizes.map((size) => {
      first += size;
      return first - size + Math.floor(random() * size);
    });
    return parts.map((batch) => [...batch, ...examples]);
  }

  Object.assign(page, { NAMES, classesOf, batchesOf });
})((globalThis.orthoframe ??= {}));
