/* A browser starts no worker from a folder (file:). There, the search's worker runs in a hidden frame instead. */
class WorkerInFrame extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    const inner = (this.inner = frame.contentWindow);
    const load = (address) =>
      new Promise((resolve, reject) => {
        const script = inner.document.createElement("script");
        Object.assign(script, { src: address, onload: resolve, onerror: reject });
        inner.document.body.append(script);
      });
    inner.importScripts = (...addresses) => addresses.reduce((last, next) => last.then(() => load(next)), Promise.resolve());
    inner.postMessage = (data) => {
      const message = new MessageEvent("message", { data });
      this.dispatchEvent(message);
      if (this.onmessage) this.onmessage(message);
    };
    this.loaded = load(new URL(url, location.href).href);
  }
  postMessage(data) {
    this.loaded.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
  }
  terminate() {
    this.inner.frameElement.remove();
  }
}
if (location.protocol === "file:") window.Worker = WorkerInFrame;
