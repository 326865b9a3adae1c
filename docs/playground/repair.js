// Few samples to add to batches so that the orthogonal frame becomes their only optimum.
"use strict";
(function (page) {
  const { Scan, closeSingle, countClasses } = page;

  function firstOfEach({ classes, k }) {
    return Array.from({ length: k }, (_, c) => classes.indexOf(c));
  }

  // Single-class batches to add another class to, those with the most pieces first; `components` is updated. Mending a
  // batch may make others needless, but only in its cluster (batches that share pieces, directly or through others), so
  // each round mends one batch per cluster.
  function mends(components, single) {
    let waiting = [...single];
    const mended = [];
    while (waiting.length) {
      const scattered = waiting.map(({ samples }) => components.scattered(samples));
      const best = new Map();
      clusters(components, waiting).forEach((cluster, number) => {
        if (!best.has(cluster) || scattered[number] > scattered[best.get(cluster)]) best.set(cluster, number);
      });
      const taken = new Set([...best.values()].filter((number) => scattered[number] > 1));
      if (!taken.size) return mended;
      const chosen = waiting.filter((_, number) => taken.has(number));
      for (const { samples } of chosen) components.join(samples);
      waiting = waiting.filter((_, number) => !taken.has(number));
      closeSingle(components, waiting);
      mended.push(...chosen);
    }
    return mended;
  }

  function clusters(components, single) {
    const joined = components.copy(); // pieces of one batch belong together
    for (const { samples } of single) joined.join(samples);
    return single.map(({ samples }) => joined.root(samples[0]));
  }

  // Disconnected classes that share no batch with another row: those in no batch, and those alone in one.
  function homeless(scan, pieces) {
    const unseen = [];
    const alone = [];
    for (let c = 0; c < scan.k; c++) {
      if (pieces[c] < 2 || scan.shared[c]) continue;
      (scan.seen.some((seen, sample) => seen && scan.classes[sample] === c) ? alone : unseen).push(c);
    }
    return [unseen, alone];
  }

  // The number of additions that `repair` makes to connect every class.
  function additionsToConnect(scan) {
    const components = scan.components.copy();
    const mended = mends(components, scan.single.values()).length;
    const pieces = components.pieces(scan.classes, scan.k);
    let [unseen, alone] = homeless(scan, pieces).map((list) => list.length);
    const guests = Math.min(mended, unseen);
    [unseen, alone] = [unseen - guests, Math.max(0, alone - (mended - guests))];
    // If one homeless class is the guest of another, one addition is enough for both.
    const housing = unseen + Math.floor((Math.max(0, alone - unseen) + 1) / 2);
    return mended + pieces.reduce((sum, number) => sum + Math.max(number - 1, 0), 0) + housing;
  }

  function extended(batches, additions) {
    const longer = batches.map((batch) => [...batch]);
    for (const [number, sample] of additions) longer[number].push(sample);
    return longer;
  }

  // The batches in the same order, with the additions at the end of each. Classes are connected first: a guest for each
  // single-class batch that would not collapse, then one representative of the class for its other pieces (a star,
  // because training converges far more slowly along a chain). Class pairs are then brought together greedily. With a
  // frame term, samples that are in no batch are added to the last.
  function repair(classes, k, batches, byFrame = false) {
    if (!batches.some((batch) => batch.length)) return batches;
    const scan = new Scan(classes, k).add(batches);
    if (byFrame) {
      const absent = scan.seen.flatMap((seen, sample) => (seen ? [] : [sample]));
      return extended(batches, absent.map((sample) => [batches.length - 1, sample]));
    }
    const components = scan.components.copy();
    const mended = mends(components, scan.single.values()).map(({ number }) => number);
    let longer = extended(batches, guests(scan, batches, mended, components));
    longer = extended(longer, ties(scan, longer, components));
    return coverPairs(scan, longer);
  }

  // Additions of another class to each mended batch; homeless classes first, because they need a batch anyway.
  function guests(scan, batches, mended, components) {
    const { classes, k } = scan;
    const [unseen, alone] = homeless(scan, components.pieces(classes, k));
    const met = scan.met.map((row) => [...row]);
    const placed = [];
    const nextGuest = () => (unseen.length ? unseen : alone).pop();
    for (const number of mended) {
      const host = classes[batches[number][0]];
      const unmet = met[host].indexOf(false);
      const guest = unseen.length || alone.length ? nextGuest() : unmet >= 0 ? unmet : (host + 1) % k;
      met[host][guest] = met[guest][host] = true;
      placed.push([number, guest]);
    }
    const homes = new Map();
    batches.forEach((batch, number) => batch.length === 1 && homes.set(classes[batch[0]], number));
    while (unseen.length || alone.length) {
      const guest = nextGuest();
      const other = batches.findIndex((batch) => batch.some((sample) => classes[sample] !== guest));
      const home = alone.length ? homes.get(alone.pop()) : other >= 0 ? other : (homes.get(guest) ?? 0);
      placed.push([home, guest]);
    }
    const samples = firstOfEach(scan);
    return placed.map(([number, guest]) => [number, samples[guest]]);
  }

  // Additions of a representative of each class to one batch of each of its other pieces.
  function ties({ classes, k }, batches, components) {
    const roots = components.roots();
    const batchOf = new Map();
    batches.forEach((batch, number) => {
      if (batch.length > 1) for (const sample of batch) batchOf.set(roots[sample], number);
    });
    const added = [];
    for (let c = 0; c < k; c++) {
      const sizes = new Map(); // by the root of a piece, which is its first sample
      roots.forEach((root, sample) => classes[sample] === c && sizes.set(root, (sizes.get(root) ?? 0) + 1));
      const pieces = [...sizes.keys()].sort((a, b) => a - b);
      if (pieces.length < 2) continue;
      const weight = (piece) => (batchOf.has(piece) ? sizes.get(piece) : 0);
      const centre = pieces.reduce((best, piece) => (weight(piece) > weight(best) ? piece : best));
      for (const piece of pieces) {
        if (piece === centre) continue;
        // In no batch or alone in one: add it to a batch of the others.
        added.push(batchOf.has(piece) ? [batchOf.get(piece), centre] : [batchOf.get(centre), piece]);
      }
    }
    return added;
  }

  // Brings together the class pairs that no batch pushes apart: the move with the most new pairs per sample, one or two
  // samples of a class to a batch, is made until no pair is missing.
  function coverPairs(scan, batches) {
    const { classes, k } = scan;
    const missing = new Scan(classes, k).add(batches).met.map((row) => row.map((met) => !met));
    const samples = firstOfEach(scan);
    const rows = batches.map((batch) => countClasses(batch, classes, k));
    const variety = rows.map((counts) => counts.filter(Boolean).length);
    const places = batches.map((_, number) => number).sort((a, b) => variety[b] - variety[a] || b - a);
    while (missing.some((row) => row.some(Boolean))) {
      const { place, guest, number } = bestMove(rows, places, missing, k);
      for (let i = 0; i < number; i++) batches[place].push(samples[guest]);
      rows[place][guest] += number;
      for (let a = 0; a < k; a++) {
        for (let b = 0; b < k; b++) {
          const [low, high] = [Math.min(rows[place][a], rows[place][b]), Math.max(rows[place][a], rows[place][b])];
          if (low > 0 && high > 1) missing[a][b] = false;
        }
      }
    }
    return batches;
  }

  function bestMove(rows, places, missing, k) {
    const best = { 1: { gain: 0 }, 2: { gain: 0 } };
    for (const place of places) {
      for (let guest = 0; guest < k; guest++) {
        const own = rows[place][guest];
        const wanted = (least) => missing[guest].filter((flag, c) => flag && rows[place][c] >= least).length;
        // One sample meets the classes that have two rows, or all classes if it is the second row of its own.
        const one = own === 1 ? wanted(1) : own === 0 ? wanted(2) : 0;
        const two = own === 0 ? wanted(1) / 2 : 0;
        if (one > best[1].gain) best[1] = { gain: one, place, guest, number: 1 };
        if (two > best[2].gain) best[2] = { gain: two, place, guest, number: 2 };
      }
    }
    if (!best[1].gain && !best[2].gain) {
      // The missing classes are in none of these batches: add one of them.
      return { place: places[0], guest: missing.findIndex((row) => row.some(Boolean)), number: 1 };
    }
    return best[1].gain >= best[2].gain ? best[1] : best[2];
  }

  Object.assign(page, { additionsToConnect, repair });
})((globalThis.orthoframe ??= {}));
