(* SPDX-License-Identifier: Apache-2.0 *)
(* depths WORDS FRAMES: allocates small blocks on a stack of about FRAMES frames, whose innermost
   ones change at random. *)

let words_wanted = Handshake.int_argument 1 100_000_000
let frames = Handshake.int_argument 2 10
let blocks_a_visit = 16
let words_a_block = 4
let span = 8 (* number of frames that change *)
let left = ref 0
let sum = ref 0
let random = ref 1

let next () =
  random := ((!random * 25214903917) + 11) land 0xFFFFFFFFFFFF;
  !random lsr 20

let[@inline never] visit level =
  for i = 1 to blocks_a_visit do
    let a, _, _ = Sys.opaque_identity (i + level, i, level) in
    sum := (!sum + a) land 0xFFFFFFF
  done;
  decr left

(* Visits each level, then calls the next one or returns; the outermost level always calls. *)
let[@inline never] rec wander level =
  visit level;
  while !left > 0 && (level = 0 || next () land 1 = 0) do
    if level >= span then visit level
    else if next () land 1 = 0 then wander (level + 1)
    else stray (level + 1)
  done

and[@inline never] stray level =
  visit level;
  while !left > 0 && next () land 3 <> 0 do
    if level >= span then visit level else wander (level + 1)
  done

(* [... + 1] keeps every call from being a tail call. *)
let[@inline never] rec accept n = if n <= 0 then (wander 0; 0) else route (n - 1) + 1
and[@inline never] route n = if n <= 0 then (wander 0; 0) else parse (n - 1) + 1
and[@inline never] parse n = if n <= 0 then (wander 0; 0) else accept (n - 1) + 1

let work () =
  left := words_wanted / (blocks_a_visit * words_a_block);
  ignore (accept (frames - span));
  !sum

let () = Handshake.serve_work work
