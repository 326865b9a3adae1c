// Search runs in a Web Worker, which browsers refuse to pages that are opened from disk. There, run it in a hidden frame.

class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    const page = frame.contentDocument;
    page.open(); // or Firefox replaces the page later
    page.write("<!doctype html><body></body>");
    page.close();
    this.inside.postMessage = (data) => {
      setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
    };
    const script = page.createElement("script");
    this.ready = new Promise((resolve, reject) => {
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${url} could not be loaded`));
    });
    script.src = url;
    page.body.append(script);
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
