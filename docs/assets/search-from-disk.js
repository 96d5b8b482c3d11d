// What search needs beyond the theme.
// A page that was opened from disk may not start a worker, and search is one. There it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><title>search</title><body></body>");
      inside.document.close();
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      this.started = new Promise((resolve) => script.addEventListener("load", resolve));
      inside.document.body.appendChild(script);
    }

    postMessage(data) {
      this.started.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}

// The theme gives its search dialog no name, which people need who do not see it.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector('.md-search[role="dialog"]')?.setAttribute("aria-label", "Search");
});
