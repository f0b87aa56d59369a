(* SPDX-License-Identifier: Apache-2.0 *)
(* deep [WORDS]: allocates small blocks about 90 frames deep, through nine
   functions in turn, so that adjacent frames always differ. *)

let words_wanted = Handshake.int_argument 1 200_000_000
let depth = 90
let blocks_a_visit = 64
let words_a_block = 4

let[@inline never] leaf seed =
  let sum = ref seed in
  for i = 1 to blocks_a_visit do
    let a, _, _ = Sys.opaque_identity (i + !sum, i, seed) in
    sum := a land 0xFFFFFFF
  done;
  !sum

(* [... + 1] keeps every call from being a tail call. *)
let[@inline never] rec accept n x = if n = 0 then leaf x else route (n - 1) x + 1
and[@inline never] route n x = if n = 0 then leaf x else authorize (n - 1) x + 1
and[@inline never] authorize n x = if n = 0 then leaf x else parse (n - 1) x + 1
and[@inline never] parse n x = if n = 0 then leaf x else validate (n - 1) x + 1
and[@inline never] validate n x = if n = 0 then leaf x else lookup (n - 1) x + 1
and[@inline never] lookup n x = if n = 0 then leaf x else merge (n - 1) x + 1
and[@inline never] merge n x = if n = 0 then leaf x else render (n - 1) x + 1
and[@inline never] render n x = if n = 0 then leaf x else respond (n - 1) x + 1
and[@inline never] respond n x = if n = 0 then leaf x else accept (n - 1) x + 1

let work () =
  let sum = ref 0 in
  for _ = 1 to words_wanted / (blocks_a_visit * words_a_block) do
    sum := accept depth !sum land 0xFFFFFFF
  done;
  !sum

let () = Handshake.serve_work work
