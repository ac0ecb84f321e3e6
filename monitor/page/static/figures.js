/* The figures of reports in one file, by kind. A file holds those alone that it shows: each adds itself. */

/** @type {Record<string, (props: any) => any>} */
export const FIGURES = {};
