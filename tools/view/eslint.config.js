/** What ESLint checks of the view: its recommended rules, and no unused name but one that starts with _. */

import js from "@eslint/js";
import globals from "globals";

export default [
  {
    ...js.configs.recommended,
    languageOptions: { globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      ...js.configs.recommended.rules,
      "no-unused-vars": ["error", { args: "all", argsIgnorePattern: "^_" }],
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
