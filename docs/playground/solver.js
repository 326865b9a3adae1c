// Free features under projected gradient steps, and what is measured beside them.
"use strict";
(function (page) {
  const STEP = 0.01; // of the gradient of the sum over anchors: a time of the gradient flow
  const SHORTEST = STEP / 2 ** 20;
  const MOST_DRAWN = 300; // batches whose graph is drawn
  const MOST_SCANNED = 20000; // epochs that the certificate is about at most: a link to a later one opens in two seconds
  const STILL = 1e-8; // rows that move by less in a step of this length are at rest

  // The gradient without its part along the rows, which have unit norm.
  function tangent(gradient, rows) {
    const { count, dim, values } = rows;
    const slope = Float64Array.from(gradient);
    for (let i = 0; i < count; i++) {
      const along = page.dot(gradient, i, values, i, dim);
      for (let j = i * dim; j < (i + 1) * dim; j++) slope[j] -= along * values[j];
    }
    return slope;
  }

  // A run of free features: `settings` may be replaced while it runs, and `restart` begins again.
  class Run {
    constructor(settings) {
      this.restart(settings);
    }

    restart(settings) {
      this.classes = page.classesOf(settings.sizes);
      this.k = settings.sizes.length;
      this.rows = page.randomRows(this.classes.length, this.k, settings.relu, settings.seed);
      this.step = 0;
      this.length = STEP;
      this.scan = null;
      this.change(settings);
    }

    // Takes other settings of the same samples.
    change(settings) {
      const samePlan = this.scan && ["plan", "batchSize", "seed", "batches"].every((name) => settings[name] === this.settings[name]);
      this.settings = { ...settings };
      if (settings.relu && this.rows.values.some((value) => value < 0)) page.project(this.rows, true);
      if (!samePlan) {
        this.epoch = 0;
        this.scan = new page.Scan(this.classes, this.k);
        this.scanned = []; // the batches that the certificate is about
        this.epochs = 0; // how many epochs have them
        this.meet();
      } else {
        this.prepare();
      }
    }

    // Replaces the features, for example by a witness.
    place(rows) {
      this.rows = rows;
      this.evaluate();
    }

    // Goes on where a run was, after the given steps and epochs.
    resume(rows, step, epoch) {
      page.project(rows, this.settings.relu);
      this.rows = rows;
      this.step = step;
      const last = this.settings.plan === "reshuffle" ? epoch : 0;
      while (this.epochs < last && this.scans) this.look(page.batchesOf(this.settings.sizes, this.settings, this.epochs));
      this.epoch = last;
      this.meet();
    }

    // The batches of the epoch, and what they and those before them guarantee.
    meet() {
      this.batches = page.batchesOf(this.settings.sizes, this.settings, this.epoch);
      if (this.epochs <= this.epoch && this.scans) this.look(this.batches);
      this.prepare();
    }

    // Whether the batches of more epochs could change a verdict, whatever the loss is now: the reader may choose another.
    get scans() {
      return !this.scan.complete && this.epochs < MOST_SCANNED;
    }

    look(batches) {
      this.epochs++;
      this.scan.add(batches);
      if (this.scanned.length < MOST_DRAWN) this.scanned.push(...batches);
    }

    prepare() {
      this.objective = page.makeObjective(this.classes, this.k, this.batches, this.settings);
      this.evaluate();
    }

    get byFrame() {
      return this.settings.loss === "frame";
    }

    // Whether the certificate holds: what is asked in every frame, while its sentence is asked for when it is read.
    get holds() {
      return this.byFrame ? this.scan.seen.every(Boolean) : this.scan.complete;
    }

    // What the batches so far guarantee.
    get certificate() {
      const { scan, byFrame, known } = this;
      if (known?.scan !== scan || known.byFrame !== byFrame || this.knownOf !== scan.numBatches) {
        this.known = page.certify(scan, page.NAMES, byFrame);
        this.knownOf = scan.numBatches;
      }
      return this.known;
    }

    evaluate() {
      this.resting = false;
      this.found = this.objective.evaluate(this.rows);
    }

    get loss() {
      return this.found.value;
    }

    get floor() {
      return this.objective.floor;
    }

    measure() {
      return page.measure(this.rows, this.classes, this.k);
    }

    // One step along the gradient of the batches of an epoch, projected; shortened until the loss does not rise.
    advance() {
      const { rows, objective, settings } = this;
      const slope = tangent(this.found.gradient, rows);
      const limit = this.loss + 1e-13 * (1 + Math.abs(this.loss));
      let length = Math.min(STEP, 2 * this.length);
      let moved, found;
      while (true) {
        moved = page.makeRows(rows.count, rows.dim, Float64Array.from(rows.values));
        for (let i = 0; i < slope.length; i++) moved.values[i] -= length * objective.divisor * slope[i];
        page.project(moved, settings.relu);
        found = objective.evaluate(moved);
        if (found.value <= limit || length < SHORTEST) break;
        length /= 2;
      }
      let change = 0;
      for (let i = 0; i < slope.length; i++) change = Math.max(change, Math.abs(moved.values[i] - rows.values[i]));
      Object.assign(this, { rows: moved, found, length });
      this.step++;
      if (settings.plan === "reshuffle") {
        this.epoch++;
        this.meet();
      }
      this.resting = change * (STEP / length) < STILL;
    }
  }

  Object.assign(page, { MOST_SCANNED, Run, tangent });
})((globalThis.orthoframe ??= {}));
