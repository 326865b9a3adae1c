// Which samples the batches connect and which classes they bring together, the verdict, and a witness where it fails.
"use strict";
(function (page) {
  const SHOWN = 3; // samples that a sentence lists
  // The angle by which a witness leans: far from both 0 and a right angle.
  const COSINE = 0.8;
  const SINE = Math.sqrt(1 - COSINE ** 2);

  // A union-find over all samples; the root of a component is its smallest sample.
  class Components {
    constructor(count, parents = Array.from({ length: count }, (_, i) => i)) {
      this.parents = parents;
      this.joins = 0; // how often components became one
    }

    copy() {
      return new Components(0, [...this.parents]);
    }

    root(sample) {
      while (this.parents[sample] !== sample) {
        this.parents[sample] = this.parents[this.parents[sample]];
        sample = this.parents[sample];
      }
      return sample;
    }

    join(samples) {
      const roots = samples.map((sample) => this.root(sample));
      const lowest = Math.min(...roots);
      for (const root of roots) {
        if (this.parents[root] !== lowest) this.joins++;
        this.parents[root] = lowest;
      }
    }

    roots() {
      return this.parents.map((_, sample) => this.root(sample));
    }

    // How many components each class has.
    pieces(classes, k) {
      const pieces = new Array(k).fill(0);
      this.parents.forEach((parent, sample) => (pieces[classes[sample]] += parent === sample ? 1 : 0));
      return pieces;
    }

    // How many components a list of samples has.
    scattered(samples) {
      return new Set(samples.map((sample) => this.root(sample))).size;
    }
  }

  function matrix(k) {
    return Array.from({ length: k }, (_, a) => Array.from({ length: k }, (_, b) => a === b));
  }

  // What batches do, of any number of epochs: a batch of two or more classes makes its rows of each class coincide. A
  // batch of a single class only makes its rows equiangular: three or more coincide once two of them are known to. Two
  // classes are pushed apart by a batch in which one of them has at least two rows.
  class Scan {
    constructor(classes, k) {
      Object.assign(this, { classes, k, met: matrix(k), touched: matrix(k), numBatches: 0, done: false });
      this.components = new Components(classes.length);
      this.seen = new Array(classes.length).fill(false);
      this.content = new Array(classes.length); // of the batch that each sample was in, as the sum of squares
      this.differs = new Array(classes.length).fill(false); // whether it was in batches that differ
      this.shared = new Array(k).fill(false); // classes that are in a batch with another row
      this.single = new Map(); // batches of a single class that hold several components, by content
    }

    add(batches) {
      const { joins } = this.components;
      let larger = false;
      for (const batch of batches) larger = this.addBatch([...batch]) || larger;
      if (!larger && this.components.joins === joins) return this; // as for most epochs of many
      closeSingle(this.components, [...this.single.values()]);
      for (const [content, { samples }] of this.single) {
        if (this.components.scattered(samples) === 1) this.single.delete(content);
      }
      return this;
    }

    // Whether every class is connected and every pair is pushed apart: from then on no batch changes a verdict.
    get complete() {
      this.done ||= this.met.every((row) => row.every(Boolean)) && this.components.pieces(this.classes, this.k).every((number) => number === 1);
      return this.done;
    }

    // Returns whether it is one of a single class that may tie its rows together.
    addBatch(batch) {
      const number = this.numBatches++;
      const groups = Array.from({ length: this.k }, () => []);
      const content = batch.reduce((sum, sample) => sum + sample ** 2, 0);
      for (const sample of batch) {
        this.differs[sample] ||= (this.content[sample] ?? content) !== content;
        this.content[sample] = content;
        groups[this.classes[sample]].push(sample);
        this.seen[sample] = true;
      }
      const present = groups.map((_, c) => c).filter((c) => groups[c].length);
      for (const c of present) {
        if (batch.length > 1) this.shared[c] = true;
        if (present.length > 1) this.components.join(groups[c]);
        for (const other of present) {
          this.touched[c][other] = true;
          if (groups[c].length > 1 || groups[other].length > 1) this.met[c][other] = true;
        }
      }
      if (present.length > 1 || batch.length < 2 || this.components.scattered(batch) === 1) return false;
      const key = [...batch].sort((a, b) => a - b).join(" ");
      if (this.single.has(key)) return false;
      this.single.set(key, { number, samples: batch });
      return batch.length > 2;
    }
  }

  // Joins the rows of each single-class batch of three or more in which two coincide, until no such batch is left.
  function closeSingle(components, single) {
    let waiting = single.filter(({ samples }) => samples.length > 2);
    while (true) {
      const acting = waiting.filter(({ samples }) => components.scattered(samples) < samples.length);
      if (!acting.length) return;
      for (const { samples } of acting) components.join(samples);
      waiting = waiting.filter((batch) => !acting.includes(batch));
    }
  }

  // Pairs of classes a < b for which a matrix is false.
  function falsePairs(flags) {
    return flags.flatMap((row, a) => row.flatMap((flag, b) => (a < b && !flag ? [[a, b]] : [])));
  }

  // The verdict on what a scan found, for non-negative features; `names` are those of the classes. With a frame term
  // every sample has an optimum of its own, and it is enough that all are in a batch.
  function certify(scan, names, byFrame = false) {
    const { classes, k } = scan;
    const absent = scan.seen.flatMap((seen, sample) => (seen ? [] : [sample]));
    const pieces = scan.components.pieces(classes, k);
    const missing = byFrame ? [] : falsePairs(scan.met);
    const broken = byFrame ? [] : pieces.flatMap((number, c) => (number > 1 ? [c] : []));
    const holds = byFrame ? !absent.length : !broken.length && !missing.length;
    const additions = byFrame ? absent.length : page.additionsToConnect(scan);
    const found = { holds, absent, pieces, missing, broken, additions, byFrame, scan, names };
    return { ...found, reasons: reasons(found), sentence: sentence(found) };
  }

  // Words as a part of a sentence.
  function listed(words) {
    return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0];
  }

  function namedAbsent(absent) {
    const few = absent.slice(0, SHOWN).join(", ") + (absent.length > SHOWN ? ", ..." : "");
    return absent.length > 1 ? `${absent.length} samples are in no batch (${few})` : `sample ${few} is in no batch`;
  }

  function reasons({ absent, pieces, missing, broken, byFrame, scan, names }) {
    if (byFrame) return absent.length ? namedAbsent(absent) : "";
    const said = [];
    if (broken.length) {
      const worst = broken.reduce((best, c) => (pieces[c] > pieces[best] ? c : best));
      said.push(`class ${names[worst]} splits into ${pieces[worst]} components`);
      if (broken.length > 1) said.push(`${broken.length} classes are disconnected in total`);
    }
    if (absent.length) said.push(namedAbsent(absent));
    if (missing.length) {
      const [a, b] = missing[0];
      const how = scan.touched[a][b] ? "share batches only as singletons" : "never meet";
      said.push(`classes ${names[a]} and ${names[b]} ${how}, so they are not pushed apart`);
      if (missing.length > 1) said.push(`${missing.length} class pairs are not pushed apart in total`);
    }
    return said.join("; ");
  }

  function sentence(found) {
    const { holds, byFrame, additions, broken, scan } = found;
    const features = `with non-negative features of at least ${scan.k} dimensions`;
    if (holds && byFrame) {
      const each = "the frame term has a unique optimum for every sample";
      return `Certified: ${features}, ${each}, and every sample is in a batch.`;
    }
    if (holds) return `Certified: ${features}, the orthogonal frame is the only optimum of these batches.`;
    if (byFrame) return `Not certified: ${reasons(found)}; the frame term never reaches them. Add them to any batch.`;
    if (4 * scan.differs.filter(Boolean).length > scan.seen.filter(Boolean).length) {
      const anew = "If each epoch draws its batches anew, more epochs cost nothing; if not, bind or repair the batches.";
      return `Not certified: ${reasons(found)}. ${anew}`;
    }
    const connects = additions > 1 ? "additions connect" : "addition connects";
    const cost = broken.length ? `: ${additions} ${connects} every class` : "";
    return `Not certified: ${reasons(found)}. Bind the batches, or repair them${cost}.`;
  }

  // Non-negative unit rows that reach the floor on every batch and are not a frame; null if the certificate holds.
  // Each class is on its own axis, except for what the batches leave free.
  function witness(certificate) {
    const { holds, absent, byFrame, missing, scan } = certificate;
    if (holds) return null;
    const { classes, k } = scan;
    const roots = scan.components.roots();
    const leaning = byFrame || missing.length ? [] : leaningPieces(certificate, roots);
    const rows = page.makeRows(classes.length, k + leaning.length);
    const { dim, values } = rows;
    for (let i = 0; i < rows.count; i++) values[i * dim + classes[i]] = 1;
    if (byFrame) {
      const [free] = absent;
      values[free * dim + classes[free]] = COSINE;
      values[free * dim + ((classes[free] + 1) % k)] = SINE;
    } else if (missing.length) {
      const [a, b] = missing[0];
      for (let i = 0; i < rows.count; i++) {
        if (classes[i] !== b) continue;
        values[i * dim + a] = COSINE;
        values[i * dim + b] = SINE;
      }
    }
    leaning.forEach((piece, extra) => {
      for (let i = 0; i < rows.count; i++) {
        if (roots[i] !== piece) continue;
        values[i * dim + classes[i]] = COSINE;
        values[i * dim + k + extra] = SINE;
      }
    });
    return rows;
  }

  // The smallest set of pieces of a disconnected class that no batch of that class alone ties to other pieces.
  function leaningPieces({ broken, scan }, roots) {
    const own = new Set(roots.filter((_, sample) => broken.includes(scan.classes[sample])));
    const tied = new Map([...own].sort((a, b) => a - b).map((piece) => [piece, new Set([piece])]));
    for (const { samples } of scan.single.values()) {
      if (samples.length < 3) continue; // two rows are free
      const together = new Set(samples.flatMap((sample) => [...tied.get(roots[sample])]));
      for (const piece of together) tied.set(piece, together);
    }
    const sets = [...tied.values()].map((pieces) => [...pieces].sort((a, b) => a - b));
    return sets.reduce((best, pieces) => (pieces.length < best.length ? pieces : best));
  }

  Object.assign(page, { Components, Scan, closeSingle, certify, witness, listed });
})((globalThis.orthoframe ??= {}));
