// A dialog over the page. The browser keeps the focus in it and gives it back afterwards.
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({
  title,
  close,
  children,
  wide,
}: {
  title: ComponentChildren;
  close?: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const cancel = (event: Event) => {
    event.preventDefault();
    close?.();
  };
  return (
    <dialog
      ref={dialog}
      class={wide ? "wide" : ""}
      aria-labelledby={id}
      onCancel={cancel}
      onClick={(event) => {
        if (event.target === dialog.current) close?.();
      }}
    >
      <div class="dialog">
        <header>
          <h2 id={id}>{title}</h2>
          {close && (
            <button type="button" class="icon" aria-label="Close" onClick={close}>
              ×
            </button>
          )}
        </header>
        {children}
      </div>
    </dialog>
  );
}
