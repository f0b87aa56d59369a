// SPDX-License-Identifier: Apache-2.0
// Names for nodes that stay valid in later profiles of the same program, where nodes and functions have other
// numbers. They are derived from names and locations of functions.
import type { Tree } from "./call_tree";
import { hash } from "./colours";
import type { Profile } from "./profile";

const functionHashes = new WeakMap<Profile, Uint32Array>();
function hashesOf(profile: Profile): Uint32Array {
  let hashes = functionHashes.get(profile);
  if (hashes === undefined) {
    hashes = Uint32Array.from(profile.data.functions, (_, fn) =>
      hash(`${profile.name(fn)}\n${profile.location(fn)}`));
    functionHashes.set(profile, hashes);
  }
  return hashes;
}

const mix = (above: number, own: number): number => {
  const h = Math.imul(above ^ own, 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
};

// By node: hash of the functions from the root to the node.
const chains = new WeakMap<Tree, Uint32Array>();
function chainsOf(tree: Tree): Uint32Array {
  let chain = chains.get(tree);
  if (chain === undefined) {
    const hashes = hashesOf(tree.profile);
    chain = new Uint32Array(tree.parent.length);
    for (let i = 1; i < chain.length; ++i) chain[i] = mix(chain[tree.parent[i]], hashes[tree.fn[i]]);
    chains.set(tree, chain);
  }
  return chain;
}

// "" for the root. A path in a tree of callers names each function, because its nodes are created on demand.
export function stablePath(tree: Tree, node: number): string {
  if (node <= 0) return "";
  if (!tree.inverted) return `${tree.depth[node]}.${chainsOf(tree)[node].toString(36)}`;
  const hashes = hashesOf(tree.profile);
  const path: string[] = [];
  for (let at = node; at > 0; at = tree.parent[at]) path.push(hashes[tree.fn[at]].toString(36));
  return path.reverse().join(".");
}

// 0 if there is no such node.
export function findStable(tree: Tree, path: string): number {
  if (path === "") return 0;
  if (tree.inverted) return findCaller(tree, path.split("."));
  const [depth, text] = path.split(".");
  const wanted = parseInt(text ?? "", 36);
  const chain = chainsOf(tree);
  for (let i = 1; i < chain.length; ++i) {
    if (chain[i] === wanted && tree.depth[i] === Number(depth) && tree.total[i] > 0) return i;
  }
  return 0;
}

function findCaller(tree: Tree, path: string[]): number {
  const hashes = hashesOf(tree.profile);
  let node = 0;
  for (const text of path) {
    tree.prepare(node);
    let next = 0;
    for (let c = tree.childBegin[node]; c < tree.childEnd[node] && next === 0; ++c) {
      const child = tree.childList[c];
      if (hashes[tree.fn[child]].toString(36) === text) next = child;
    }
    if (next === 0) return 0;
    node = next;
  }
  return node;
}
