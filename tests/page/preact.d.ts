// What vendor/preact.js exports: htm bound to preact, with hooks.
export * from "preact";
export * from "preact/hooks";
export declare const html: (strings: TemplateStringsArray, ...values: any[]) => any;
