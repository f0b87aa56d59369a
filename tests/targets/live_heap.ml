(* SPDX-License-Identifier: Apache-2.0 *)
(* live_heap [REPLACEMENTS]: keeps a large live heap (about 100 MB) and
   continuously replaces pseudo-random parts of it: long lifetimes, much
   promotion, real major collections. *)

type entry = { key : int; name : string; mutable next : entry option; tags : int list }

let replacements = Handshake.int_argument 1 500_000
let slots = 400_000

let[@inline never] make_entry key =
  { key; name = String.make 48 (Char.chr (97 + (key mod 26))); next = None;
    tags = [ key; key + 1; key + 2 ] }

let table = Array.init slots make_entry

let work () =
  let state = ref 12_345 and sum = ref 0 in
  for i = 1 to replacements do
    state := ((!state * 1_103_515_245) + 12_345) land 0x3FFFFFFF;
    let slot = !state mod slots in
    sum := (!sum + table.(slot).key + String.length table.(slot).name) land 0xFFFFFFF;
    table.(slot) <- make_entry i
  done;
  !sum

let () = Handshake.serve_work work
