/** The lectures' worked examples: what is given, and nothing that is computed from it. */

export const EXAMPLES = [
  {
    letter: "A",
    title: "Two words",
    story: "“Thinking Machines”, seen from the first word. Its query met both keys, 64 numbers long, and these two scores came out.",
    given: { scores: [[112, 96]] },
    words: ["Thinking", "Machines"],
    queryWords: ["Thinking"],
    keyWidth: 64,
    rules: { scale: true, causal: false, temperature: 1, decimals: null },
  },
  {
    letter: "B",
    title: "Three inputs",
    story: "Three inputs of width 4, and three weight matrices that make them 3 wide: self-attention from the first multiplication to the last sum.",
    given: {
      x: [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]],
      wq: [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]],
      wk: [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]],
      wv: [[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]],
    },
    words: ["input 1", "input 2", "input 3"],
    queryWords: ["input 1", "input 2", "input 3"],
    keyWidth: null,
    rules: { scale: false, causal: false, temperature: 1, decimals: 1 },
  },
  {
    letter: "C",
    title: "A masked pattern",
    story: "The scores of six words, each of which may look at itself and at earlier words only. The slide prints a column for each query; turn the matrices to have it that way round.",
    given: {
      scores: [
        [3.53, 0, 0, 0, 0, 0],
        [0.8, -0.3, 0, 0, 0, 0],
        [1.96, -0.21, 0.89, 0, 0, 0],
        [4.48, 0.82, 0.67, 1.31, 0, 0],
        [3.74, 0.29, 2.99, 1.73, 3.07, 0],
        [-1.95, 2.91, -0.41, -1.48, 2.94, 0.31],
      ],
    },
    words: ["word 1", "word 2", "word 3", "word 4", "word 5", "word 6"],
    queryWords: ["word 1", "word 2", "word 3", "word 4", "word 5", "word 6"],
    keyWidth: null,
    rules: { scale: false, causal: true, temperature: 1, decimals: null },
  },
  {
    letter: "D",
    title: "Words in context",
    story: "“Python crawls quickly”: with these weights, each word becomes a mixture of all three. Here a word's value is a direction of its own, so that the mixture can be read off.",
    given: {
      weights: [[0.4, 0.4, 0.2], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]],
      v: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    },
    words: ["Python", "crawls", "quickly"],
    queryWords: ["Python", "crawls", "quickly"],
    keyWidth: null,
    rules: { scale: false, causal: false, temperature: 1, decimals: null },
  },
];

/** The example of that letter, or the one to begin with. */
export function findExample(letter) {
  return EXAMPLES.find((example) => example.letter === letter) ?? EXAMPLES[1];
}
