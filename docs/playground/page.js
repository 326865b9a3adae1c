// The page: a run, and what the reader does with it.
"use strict";
(function (page) {
  const { PRESETS, format, say } = page;
  const BUDGET = 8; // milliseconds of a frame for steps, so that the rest is for drawing
  const [OFTEN, SELDOM] = [100, 500]; // milliseconds between updates of text, and of lists
  const TURN = 0.12; // radians of an arrow key
  const AT_FLOOR = 1e-9;
  const MOST_OWED = 64; // steps that a frame makes up for

  const find = (id) => document.getElementById(id);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const night = matchMedia("(prefers-color-scheme: dark)");

  const state = { preset: 0, settings: PRESETS[0].settings, view: { ...page.VIEW }, playing: false };
  const timing = { frames: 0, work: 0, worst: 0 }; // milliseconds of the frames
  let run, history, before, display;
  let placed = false; // whether features are neither those of the start nor of a step
  let keptFragment = "";
  let timer = 0;
  let [owed, textAt, listAt, drawnAt] = [0, 0, 0, 0];

  const shown = () => ({ run, state, history, before });

  function record() {
    history.add({ step: run.step, loss: run.loss, floor: run.floor, delta: run.measure().delta });
  }

  // Begins a run of the settings again.
  function restart(keepCurve = true) {
    before = keepCurve && history?.points.length > 20 ? history : null;
    run = new page.Run(state.settings);
    history = new page.History();
    placed = false;
    record();
    display.all(shown());
  }

  // Takes other settings: other samples or seeds begin again, the rest goes on from where it is.
  function change(changes) {
    const settings = { ...state.settings, ...changes };
    const samples = settings.sizes.reduce((sum, size) => sum + size, 0);
    settings.batchSize = Math.min(settings.batchSize, samples);
    if ("sizes" in changes && settings.plan === "edited") settings.plan = "partition"; // its samples are others now
    if (settings.plan !== "edited") settings.batches = null;
    state.settings = settings;
    if ("sizes" in changes || "seed" in changes) restart();
    else {
      run.change(settings);
      display.all(shown());
    }
    keepFragment();
  }

  function showPreset(number, play = !calm.matches) {
    state.preset = number;
    state.settings = { ...PRESETS[number].settings };
    state.view = { ...page.VIEW };
    restart(false);
    setPlaying(play);
    keepFragment();
    say(`${PRESETS[number].title}: ${play ? "running" : "ready, press Play"}.`);
  }

  function setPlaying(on) {
    const wasPlaying = state.playing;
    state.playing = on;
    find("play").textContent = on ? "Pause" : "Play";
    if (on && !wasPlaying) requestAnimationFrame(frame);
    if (!on && wasPlaying) display.all(shown());
  }

  // What is said of a run at rest.
  function ending() {
    const gap = run.loss - run.floor;
    const where = `after ${run.step} step${run.step === 1 ? "" : "s"}, Δ_GM ${format(run.measure().delta)}`;
    if (Math.abs(gap) < AT_FLOOR) return `The loss is at its floor ${where}.`;
    if (gap < 0) return `At rest below the floor of non-negative features, ${where}.`;
    return `At rest above the floor, ${where}: classes have merged. A smaller temperature or another seed avoids it.`;
  }

  function advance() {
    run.advance();
    record();
  }

  function takeSteps() {
    const until = performance.now() + BUDGET;
    owed = Math.min(owed + state.settings.speed, MOST_OWED);
    while (owed >= 1 && !run.resting) {
      advance();
      owed = performance.now() > until ? 0 : owed - 1;
    }
  }

  function frame(now) {
    if (!state.playing) return;
    const start = performance.now();
    const wasCertified = run.holds;
    takeSteps();
    const changed = run.resting || run.holds !== wasCertified;
    // Readers who want less motion see a picture twice in a second.
    if (changed || now - drawnAt > (calm.matches ? SELDOM : 0)) {
      display.pictures(shown());
      drawnAt = now;
    }
    if (changed || now - textAt > OFTEN) {
      display.numbers(run);
      textAt = now;
    }
    if (run.settings.plan === "reshuffle" && (changed || now - listAt > SELDOM)) {
      display.countBatches(run, true);
      display.certificate(run);
      listAt = now;
    }
    if (run.resting) {
      setPlaying(false);
      say(ending());
      keepFragment();
    } else {
      requestAnimationFrame(frame);
    }
    const work = performance.now() - start;
    timing.frames++;
    timing.work += work;
    timing.worst = Math.max(timing.worst, work);
  }

  function showWitness() {
    setPlaying(false);
    run.place(page.witness(run.certificate));
    placed = true;
    history = new page.History();
    record();
    display.all(shown());
    const gap = format(run.loss - run.floor);
    say(`A witness: its loss is at the floor (gap ${gap}), and it is no frame (Δ_GM ${format(run.measure().delta)}).`);
    keepFragment();
  }

  function edit(batches) {
    change({ plan: "edited", batches });
  }

  function repairBatches() {
    const { classes, k, batches, settings } = run;
    const repaired = page.repair(classes, k, batches, settings.loss === "frame");
    const added = repaired.flat().length - batches.flat().length;
    if (run.rows.dim > k) restart(); // a witness had more dimensions
    edit(repaired);
    say(`${added} row${added === 1 ? "" : "s"} added to the batches.`);
  }

  // The address follows the state, but not at once: browsers refuse many changes in a short time.
  function keepFragment() {
    clearTimeout(timer);
    timer = setTimeout(writeFragment, SELDOM);
  }

  function writeFragment() {
    clearTimeout(timer);
    const rows = run.step > 0 || placed ? run.rows : null;
    keptFragment = `#${page.toFragment({ ...state, step: run.step, epoch: run.epoch, rows })}`;
    window.history.replaceState(null, "", keptFragment);
  }

  // Shows the state of an address; nothing runs until the reader wants it.
  function load(fragment) {
    const given = page.fromFragment(fragment);
    if (!given) return false;
    clearTimeout(timer);
    setPlaying(false);
    Object.assign(state, { preset: given.preset, settings: given.settings, view: given.view });
    restart(false);
    if (given.rows) {
      run.resume(given.rows, given.step, given.epoch);
      placed = true;
      history = new page.History();
      record();
      display.all(shown());
    }
    const { refused } = given;
    say(refused.length ? `This link has parts that are not understood: ${refused.join(", ")}.` : `At step ${run.step}.`);
    return true;
  }

  async function copyLink() {
    writeFragment();
    const field = find("link");
    field.hidden = false;
    field.value = location.href;
    field.select();
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link to this state is in the clipboard.");
    } catch {
      say("The link to this state is in the field above: copy it from there.");
    }
  }

  function turn(yaw, pitch) {
    state.view.yaw -= yaw;
    state.view.pitch = Math.min(1.5, Math.max(-1.5, state.view.pitch + pitch));
    display.pictures(shown());
  }

  const TURNS = { left: [-TURN, 0], right: [TURN, 0], up: [0, TURN], down: [0, -TURN] };

  // By a key or a button: who does not see the picture is told where it is turned to.
  function turnOnce(where) {
    turn(...TURNS[where]);
    const [around, tilt] = [state.view.yaw, state.view.pitch].map((angle) => Math.round((angle * 180) / Math.PI));
    say(`View: ${(((around % 360) + 360) % 360)}° around, tilted by ${tilt}°.`.replace("-", "−"));
    keepFragment();
  }

  // A mouse turns and tilts the view. A finger only turns it: up and down it scrolls the page, and tilts nothing.
  function listenToSphere() {
    const canvas = find("sphere");
    canvas.addEventListener("keydown", (event) => {
      const where = event.key.replace("Arrow", "").toLowerCase();
      if (!event.key.startsWith("Arrow") || event.altKey || event.ctrlKey || event.metaKey) return;
      turnOnce(where);
      event.preventDefault();
    });
    for (const button of document.querySelectorAll("[data-turn]")) {
      button.addEventListener("click", () => turnOnce(button.dataset.turn));
    }
    let [last, start] = [null, null];
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      last = [event.clientX, event.clientY];
      start = { ...state.view };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const tilt = event.pointerType === "mouse" ? (event.clientY - last[1]) / 150 : 0;
      turn((event.clientX - last[0]) / 150, tilt);
      last = [event.clientX, event.clientY];
    });
    canvas.addEventListener("pointerup", () => {
      last = null;
      keepFragment();
    });
    // The finger scrolls: what it did until that was known is taken back.
    canvas.addEventListener("pointercancel", () => {
      last = null;
      state.view = start ?? state.view;
      display.pictures(shown());
    });
  }

  function recolour() {
    display.colours = page.readColours();
    display.all(shown());
  }

  function changeTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : night.matches;
    root.dataset.theme = dark ? "light" : "dark";
    recolour();
  }

  function listenToButtons() {
    const items = PRESETS.map(({ title }, i) => `<li><button type="button"><span class="step">${i + 1}</span> ${title}</button></li>`);
    find("presets").innerHTML = items.join("");
    [...find("presets").querySelectorAll("button")].forEach((button, number) =>
      button.addEventListener("click", () => showPreset(number)),
    );
    const numbers = () => `loss ${format(run.loss)}, floor ${format(run.floor)}, Δ_GM ${format(run.measure().delta)}`;
    const actions = {
      back: () => {
        showPreset(state.preset);
        find("play").focus(); // the button is gone
      },
      next: () => showPreset(state.preset + 1),
      play: () => {
        setPlaying(!state.playing);
        say(state.playing ? "Running." : `Paused at step ${run.step}: ${numbers()}.`);
        if (!state.playing) keepFragment();
      },
      one: () => {
        setPlaying(false);
        advance();
        display.all(shown());
        say(`Step ${run.step}: ${numbers()}.`);
        keepFragment();
      },
      reset: () => {
        restart();
        say("Back at the start.");
        keepFragment();
      },
      witness: showWitness,
      repair: repairBatches,
      copy: copyLink,
      theme: changeTheme,
    };
    for (const [id, action] of Object.entries(actions)) find(id).addEventListener("click", action);
  }

  function begin() {
    display = new page.Display({ onEdit: edit, onChange: change });
    listenToButtons();
    listenToSphere();
    night.addEventListener("change", recolour);
    new ResizeObserver(() => {
      display.pictures(shown());
      display.certificate(run);
    }).observe(document.body);
    addEventListener("hashchange", () => location.hash !== keptFragment && load(location.hash));
    addEventListener("pagehide", writeFragment);
    if (!load(location.hash)) showPreset(0);
  }

  Object.assign(page, { state, timing, begin, showPreset, currentRun: () => run });
})((globalThis.orthoframe ??= {}));
