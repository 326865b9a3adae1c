// A state of the page as the fragment of its address, and back.
"use strict";
(function (page) {
  const { DEFAULTS } = page;
  const MOST_SAMPLES = 200;
  const PLANS = ["full", "partition", "reshuffle", "bound", "edited"];
  const LOSSES = ["contrastive", "frame"];
  const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]; // steps per frame

  function number(text, low, high) {
    const value = Number(text);
    return text !== "" && Number.isFinite(value) && value >= low && value <= high ? value : undefined;
  }

  function whole(text, low, high) {
    const value = number(text, low, high);
    return Number.isInteger(value) ? value : undefined;
  }

  function list(text, low, high) {
    const values = text.split(".").map((part) => whole(part, low, high));
    return values.includes(undefined) ? undefined : values;
  }

  function sizesFrom(text) {
    const sizes = list(text, 1, MOST_SAMPLES);
    const total = sizes?.reduce((sum, size) => sum + size, 0);
    return sizes?.length >= 3 && sizes.length <= 6 && total <= MOST_SAMPLES ? sizes : undefined;
  }

  // How each setting is written and read; reading gives undefined for what is not allowed.
  const FIELDS = {
    sizes: [(sizes) => sizes.join("."), sizesFrom],
    temperature: [String, (text) => number(text, 0.05, 2)],
    margin: [String, (text) => number(text, 0, 1)],
    relu: [(on) => (on ? "1" : "0"), (text) => ({ 0: false, 1: true })[text]],
    plan: [String, (text) => (PLANS.includes(text) ? text : undefined)],
    batchSize: [String, (text) => whole(text, 2, MOST_SAMPLES)],
    loss: [String, (text) => (LOSSES.includes(text) ? text : undefined)],
    seed: [String, (text) => whole(text, 0, 999999)],
    speed: [String, (text) => (SPEEDS.includes(Number(text)) ? Number(text) : undefined)],
  };

  // Features as base64 of float32, with the letters that an address allows.
  function packed(values) {
    const bytes = new Uint8Array(Float32Array.from(values).buffer);
    const text = btoa(String.fromCharCode(...bytes));
    return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  // Features of `count` samples, in at least as many dimensions as there are classes: with fewer there is no frame.
  function unpacked(text, count, k) {
    try {
      const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
      const values = Float64Array.from(new Float32Array(bytes.buffer));
      const dim = values.length / count;
      if (!Number.isInteger(dim) || dim < k || dim > MOST_SAMPLES || !values.every(Number.isFinite)) return undefined;
      for (let i = 0; i < count; i++) if (values.subarray(i * dim, (i + 1) * dim).every((value) => value === 0)) return undefined;
      return page.makeRows(count, dim, values);
    } catch {
      return undefined;
    }
  }

  // A preset is named only by a link to its own settings: what its text tells need not be so with others.
  // State is {preset, settings, view: {yaw, pitch}, step, epoch, rows}; rows are left out at the start of a run.
  function toFragment({ preset, settings, view, step, epoch, rows }) {
    const parts = preset === null || page.changesOf(preset, settings).length ? [] : [["preset", preset + 1]];
    for (const [name, [write]] of Object.entries(FIELDS)) parts.push([name, write(settings[name])]);
    if (settings.plan === "edited") parts.push(["batches", settings.batches.map((batch) => batch.join(".")).join("_")]);
    parts.push(["yaw", view.yaw.toFixed(2)], ["pitch", view.pitch.toFixed(2)]);
    if (rows) parts.push(["step", step], ["epoch", epoch], ["rows", packed(rows.values)]);
    return parts.map(([name, value]) => `${name}=${value}`).join("&");
  }

  // The state of a fragment, or null of an empty one; `refused` names what was not understood, which keeps its default.
  function fromFragment(fragment) {
    const given = new URLSearchParams(fragment.replace(/^#/, ""));
    if (![...given.keys()].length) return null;
    const refused = [];
    function read(name, parse, otherwise) {
      if (!given.has(name)) return otherwise;
      const value = parse(given.get(name));
      if (value === undefined) refused.push(`${name}=${given.get(name).slice(0, 20)}`);
      return value ?? otherwise;
    }
    const preset = read("preset", (text) => whole(text, 1, page.PRESETS.length), 0) - 1;
    const settings = { ...(page.PRESETS[preset]?.settings ?? DEFAULTS) };
    for (const [name, [, parse]] of Object.entries(FIELDS)) settings[name] = read(name, parse, settings[name]);
    const samples = settings.sizes.reduce((sum, size) => sum + size, 0);
    settings.batchSize = Math.min(settings.batchSize, samples);
    if (settings.plan === "edited") {
      const parse = (text) => {
        const batches = text.split("_").map((batch) => list(batch, 0, samples - 1));
        return batches.includes(undefined) ? undefined : batches;
      };
      settings.batches = read("batches", parse, null);
      if (!settings.batches) settings.plan = "full";
    }
    const view = {
      yaw: read("yaw", (text) => number(text, -100, 100), page.VIEW.yaw),
      pitch: read("pitch", (text) => number(text, -1.6, 1.6), page.VIEW.pitch),
    };
    const rows = read("rows", (text) => unpacked(text, samples, settings.sizes.length), null);
    const step = rows ? read("step", (text) => whole(text, 0, 1e9), 0) : 0;
    const epoch = rows ? read("epoch", (text) => whole(text, 0, 1e9), 0) : 0;
    return { preset: preset < 0 ? null : preset, settings, view, step, epoch, rows, refused };
  }

  Object.assign(page, { MOST_SAMPLES, SPEEDS, toFragment, fromFragment });
})((globalThis.orthoframe ??= {}));
