// The paper's story in six steps: settings, and two sentences about what they show.
"use strict";
(function (page) {
  const DEFAULTS = {
    sizes: [10, 10, 10],
    temperature: 0.5,
    margin: 0,
    relu: true,
    plan: "full",
    batchSize: 8,
    batches: null,
    loss: "contrastive",
    seed: 1,
    speed: 1,
  };

  const PRESETS = [
    {
      title: "Balanced classes",
      text:
        "Three classes of ten points each follow the gradient of the supervised contrastive loss, and with " +
        "non-negative features every class ends on an axis of its own. The loss is then at its floor, and Δ<sub>GM</sub>, the " +
        "distance to an orthogonal frame, is 0.",
    },
    {
      title: "Imbalanced, without ReLU",
      text:
        "One class has ten times as many points as the other two, and features may be negative: the two small classes " +
        "crowd on the far side of the sphere, about 62° apart, where equally large classes would be 120° apart. " +
        "The smaller they are, the closer they come.",
      settings: { sizes: [40, 4, 4], temperature: 1, relu: false, seed: 2, speed: 2 },
    },
    {
      title: "Imbalanced, with ReLU",
      text:
        "The same points with non-negative features: small classes get an axis of their own, as far from each other " +
        "as from the large one. The frame attains the floor whatever the class sizes are, so imbalance changes the " +
        "path and not the end.",
      settings: { sizes: [40, 4, 4], temperature: 1, seed: 2, speed: 2 },
    },
    {
      title: "A fixed partition fails",
      text:
        "Batches that never change let each batch choose its own axes: the loss reaches its floor, yet every class is " +
        "in three pieces and Δ<sub>GM</sub> stays above 0.5. The certificate says so before the first step, and a witness shows " +
        "other features that are optimal without being a frame.",
      settings: { sizes: [8, 8, 8], plan: "partition", seed: 4, speed: 2 },
    },
    {
      title: "Binding mends it",
      text:
        "One fixed sample of each class is added to every batch of the same partition, and ties the pieces together. " +
        "Now the orthogonal frame is the only optimum of these batches, and the same start ends there.",
      settings: { sizes: [8, 8, 8], plan: "bound", seed: 4 },
    },
    {
      title: "Temperature and speed",
      text:
        "At temperature 0.1 every class gathers within a second, and then the classes creep apart: at a low temperature, " +
        "classes that are already apart hardly push each other. Raise the temperature to 0.5, or the margin to 0.5, while " +
        "it runs: the end is the same frame, and it is reached within seconds.",
      settings: { sizes: [8, 8, 8, 8, 8], temperature: 0.1, seed: 1 },
    },
  ].map(({ title, text, settings }) => ({ title, text, settings: { ...DEFAULTS, ...settings } }));

  const WORDS = { sizes: "class sizes", relu: "ReLU", plan: "batches", batches: "batches", batchSize: "batch size" };

  // What the reader changed of a preset, in words; not the speed, which changes nothing that its text tells.
  function changesOf(preset, settings) {
    if (preset === null) return [];
    const other = ([name, value]) => name !== "speed" && JSON.stringify(value) !== JSON.stringify(settings[name]);
    const names = Object.entries(PRESETS[preset].settings).filter(other).map(([name]) => WORDS[name] ?? name);
    return [...new Set(names)];
  }

  Object.assign(page, { DEFAULTS, PRESETS, changesOf });
})((globalThis.orthoframe ??= {}));
