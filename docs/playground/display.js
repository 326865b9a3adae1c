// What the page shows of a run: numbers, the certificate, batches, pictures, and the story.
"use strict";
(function (page) {
  const { PRESETS, listed } = page;
  const OWN = "A state of your own: the six steps above tell the story.";
  const WITHOUT_RELU = "The certificate is about non-negative features and does not apply here: without ReLU the optimum is no orthogonal frame.";
  const find = (id) => document.getElementById(id);

  function format(value) {
    if (Math.abs(value) < 1e-12) return "0";
    return (Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toFixed(4)).replace("-", "−");
  }

  const lowered = (sentence) => sentence[0].toLowerCase() + sentence.slice(1);

  // Text that is read aloud where it changes is left alone where it does not.
  function setText(id, text) {
    if (find(id).textContent !== text) find(id).textContent = text;
  }

  function say(text) {
    const [first, ...others] = text.split("Δ_GM");
    const subscript = () => Object.assign(document.createElement("sub"), { textContent: "GM" });
    find("status").replaceChildren(first, ...others.flatMap((part) => ["Δ", subscript(), part]));
  }

  class Display {
    constructor({ onEdit, onChange }) {
      this.editor = new page.BatchEditor(find("batches"), { onEdit, say });
      this.controls = new page.Controls(onChange);
      this.colours = page.readColours();
    }

    all({ run, state, history, before }) {
      this.controls.show(state.settings);
      this.story(state);
      this.numbers(run);
      this.certificate(run);
      this.batches(run);
      this.pictures({ run, state, history, before });
    }

    story({ preset, settings }) {
      const changes = page.changesOf(preset, settings);
      find("story-title").textContent = preset === null ? "Your own" : `${preset + 1}. ${PRESETS[preset].title}`;
      find("story-text").innerHTML = preset === null ? OWN : PRESETS[preset].text;
      [...find("presets").querySelectorAll("button")].forEach((button, number) => {
        button.classList.toggle("changed", number === preset && changes.length > 0);
        if (number === preset && !changes.length) {
          button.setAttribute("aria-current", "step");
          find("presets").scrollLeft = button.parentElement.offsetLeft - find("presets").offsetLeft - 10;
        } else {
          button.removeAttribute("aria-current");
        }
      });
      find("story").classList.toggle("own", preset === null);
      find("changed").hidden = find("back").hidden = !changes.length;
      find("story-text").classList.toggle("changed", changes.length > 0);
      if (changes.length) {
        setText("changed", `You changed ${listed(changes)}; the text is about the step as it was.`);
        setText("back", `Back to step ${preset + 1}`);
      }
      find("next").hidden = preset === null || preset === PRESETS.length - 1;
    }

    certificate(run) {
      const { certificate, settings } = run;
      const { holds } = certificate;
      const applies = settings.relu; // it is about non-negative features
      setText("sentence", applies ? certificate.sentence : `${WITHOUT_RELU} With ReLU: ${lowered(certificate.sentence)}`);
      setText("verdict", applies ? (holds ? "✓ certified" : "✕ not certified") : "does not apply without ReLU");
      find("verdict").className = applies ? (holds ? "holds" : "fails") : "";
      const notes = [];
      if (settings.plan === "reshuffle") notes.push(run.epoch ? `Over ${Math.min(run.epoch + 1, page.MOST_SCANNED)} epochs.` : "Over the first epoch.");
      find("certificate-note").textContent = notes.join(" ");
      find("witness").disabled = find("repair").disabled = holds;
      page.drawGraph(find("graph"), run, this.colours);
      find("graph").setAttribute("aria-label", `Batch interaction graph. ${certificate.sentence} ${page.describeGraph(certificate)}`);
    }

    numbers(run) {
      const { delta, cosines } = run.measure();
      find("loss-value").textContent = format(run.loss);
      find("floor-value").textContent = format(run.floor);
      find("gap-value").textContent = format(run.loss - run.floor);
      find("delta-value").textContent = format(delta);
      find("step-value").textContent = String(run.step);
      page.fillCosines(find("cosines"), cosines);
      const off = cosines.flatMap((row, a) => row.filter((_, b) => a !== b));
      const largest = `largest cosine of two class means ${Math.max(...off).toFixed(2)}`;
      find("sphere").setAttribute("aria-label", `Features of ${run.k} classes: ${largest}. Arrow keys turn the view.`);
      find("caption").textContent = caption(run);
    }

    pictures({ run, state, history, before }) {
      const table = find("cosines");
      const covered = getComputedStyle(table).position === "absolute" ? table.offsetWidth : 0;
      page.drawSphere(find("sphere"), run, state.view, this.colours, covered);
      page.drawChart(find("chart"), history, before, this.colours);
    }

    batches(run) {
      this.editor.show(run);
      this.countBatches(run, false);
    }

    // While batches change with every step, they are counted and not listed: a list in motion cannot be edited.
    countBatches({ settings, batches, epoch }, moving) {
      const rows = batches.reduce((sum, batch) => sum + batch.length, 0);
      const which = settings.plan === "reshuffle" ? `epoch ${epoch + 1}: ` : "";
      const note = moving ? "; the list follows when you pause" : "";
      find("batches-note").textContent = `${which}${batches.length} batch${batches.length > 1 ? "es" : ""}, ${rows} rows${note}`;
    }
  }

  function caption({ rows, k, settings }) {
    const lines = [];
    if (k > 3) lines.push(`${k} dimensions: each corner is an axis, and points between corners have a part of each.`);
    else lines.push(settings.relu ? "The part of the sphere without negative entries." : "The whole sphere: entries may be negative.");
    if (rows.dim > k) lines.push(`The first ${k} of ${rows.dim} dimensions: ringed points lean into another one.`);
    return lines.join(" ");
  }

  Object.assign(page, { Display, format, say });
})((globalThis.orthoframe ??= {}));
