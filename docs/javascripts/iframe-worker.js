/* Browsers start no worker for a page that was opened from a disk: the search then runs in a hidden frame. The name of
   this file tells the generator that it need not fetch one. */
if (location.protocol === "file:")
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.started = new Promise((start, fail) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => {
            const copy = structuredClone(data);
            setTimeout(() => this.onmessage?.({ data: copy }));
          };
          const script = inside.document.createElement("script");
          script.src = new URL(address, location.href).href;
          script.onload = () => start(inside);
          script.onerror = fail;
          inside.document.head.append(script);
        };
      });
      this.started.catch((error) => this.onerror?.(error));
      document.body.append(this.frame);
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.started.then((inside) => inside.onmessage({ data: copy }), () => {});
    }

    terminate() {
      this.frame.remove();
    }
  };
