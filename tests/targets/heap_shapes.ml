(* SPDX-License-Identifier: Apache-2.0 *)
(* Keeps known numbers of blocks with unusual tags and sizes, and reports its own counts of its heap.

   Commands: "settle FILE" collects everything, then reports Gc.stat; "step FILE" allocates, drops and collects a little,
   so that a major cycle is in progress, and in OCaml 4 repeats this until the cycle sweeps. Both write the results of the
   program's own walk (heap_shapes_stubs.c) and answer {"sweeping":..,"state":"0x..","kept_words":..,..}; the heap then
   does not change until the next command. "weak" replaces the ephemerons and the weak array by new ones, then runs a
   minor collection; "collect" collects everything and answers {"61":N,..}, the number of these that the collector has
   kept, by tag. "die N" and "hang N" let the next N copies of the program fail while they search for roots. *)

external state : unit -> string = "heap_shapes_state"
external walk : string -> bool = "heap_shapes_walk"
external spoil : int -> bool -> unit = "heap_shapes_spoil"

(* (tag, fields, number of blocks): of one size class or several, large, and larger than one read. *)
let kinds = [ (33, 3, 1_000); (34, 40, 500); (35, 100, 300); (36, 300, 50); (37, 100_000, 3) ]
let young_tag, young_fields, young_blocks = (38, 5, 100)

let block tag fields = Obj.new_block tag fields
let kept = ref []
let strings = ref []
let young = ref [||]

(* Bigarrays with 8,000, 1,200 and 384 bytes outside the heap. *)
let outside =
  Bigarray.
    ( Array1.create float64 c_layout 1_000,
      Array2.create int8_unsigned c_layout 30 40,
      Genarray.create complex64 fortran_layout [| 2; 3; 4 |] )

let fill () =  kept := List.map (fun (tag, fields, n) -> Array.init n (fun _ -> block tag fields)) kinds;
  strings := [ String.make 2_000_000 'x'; String.make 20 'y' ]

let some = ref [||]

(* Keeps a third of the promoted blocks, with holes between them. *)
let make_garbage () =
  let blocks = Array.init 20_000 (fun i -> block (39 + i mod 2) (1 + i mod 30)) in
  some := blocks;
  Gc.minor ();
  Array.iteri (fun i _ -> if i mod 3 <> 0 then blocks.(i) <- Obj.repr 0) blocks

let fillers = ref [||]

(* Puts smaller blocks into the holes, which leaves fragments that are too small for a block. *)
let fill_holes () =
  Gc.full_major ();
  fillers := Array.init 10_000 (fun i -> block 41 (1 + i mod 20));
  Gc.full_major ()

(* Words reachable through [kept] and through nothing else, including headers. *)
let kept_words = ref 0

let answer sweeping (s : Gc.stat) =
  young := Array.init young_blocks (fun _ -> block young_tag young_fields);
  Printf.printf
    "{\"sweeping\":%b,\"state\":\"%s\",\"kept_words\":%d,\"live_blocks\":%d,\"live_words\":%d,\"free_blocks\":%d,\
     \"free_words\":%d,\"fragments\":%d,\"largest_free\":%d,\"heap_words\":%d}\n%!"
    sweeping (state ()) !kept_words s.live_blocks s.live_words s.free_blocks s.free_words s.fragments
    s.largest_free s.heap_words

let settle path =
  young := [||];
  make_garbage ();
  fill_holes ();
  let stat = Gc.stat () in
  answer (walk path) stat

let step path =
  young := [||];
  make_garbage ();
  let rec go n =
    ignore (Gc.major_slice 1_000);
    if not (walk path) && n > 0 then go (n - 1)
  in
  go (if Sys.ocaml_version < "5" then 100_000 else 10);
  answer (walk path) (Gc.quick_stat ())

(* ------------------------------------------------------------ what does not keep *)

let weak_pairs = 40
let ephemerons = ref [||]
let weak_array = ref (Weak.create 0)
let keys = ref [||]

(* [keys] also keeps every second key. Tags: 61 keys, 62 data, 63 elements of the weak array. The data of the last
   ephemeron leads to the key of the previous one, whose data, with tag 64, nothing else keeps. *)
let ephemeron key data =
  let e = Obj.Ephemeron.create 1 in
  Obj.Ephemeron.set_key e 0 key;
  Obj.Ephemeron.set_data e data;
  e

let make_weak () =
  let all = Array.init weak_pairs (fun _ -> block 61 2) in
  let chained = block 61 2 and leading = block 62 3 in
  Obj.set_field leading 0 chained;
  ephemerons :=
    Array.append
      (Array.map (fun key -> ephemeron key (block 62 3)) all)
      [| ephemeron chained (block 64 4); ephemeron all.(0) leading |];
  let elements = Array.init weak_pairs (fun _ -> block 63 2) in
  weak_array := Weak.create weak_pairs;
  Array.iteri (fun i element -> Weak.set !weak_array i (Some element)) elements;
  let every_other blocks = Array.init (weak_pairs / 2) (fun i -> blocks.(2 * i)) in
  keys := Array.append (every_other all) (every_other elements)

let weak () =
  make_weak ();
  Gc.minor ();
  print_endline "{}"

let collect () =
  Gc.full_major ();
  let kept blocks is_kept = Array.fold_left (fun n b -> n + Bool.to_int (is_kept b)) 0 blocks in
  let has_key e = Obj.Ephemeron.check_key e 0 and has_data = Obj.Ephemeron.check_data in
  let follows = Bool.to_int (has_data !ephemerons.(weak_pairs)) in
  Printf.printf "{\"61\":%d,\"62\":%d,\"63\":%d,\"64\":%d}\n%!"
    (kept (Array.sub !ephemerons 0 (weak_pairs + 1)) has_key)
    (kept !ephemerons has_data - follows)
    (kept (Array.init weak_pairs Fun.id) (Weak.check !weak_array))
    follows

let fail_copies copies hang =
  spoil copies hang;
  print_endline "{}"

let rec serve () =
  match Handshake.command () with
  | [ "settle"; path ] -> settle path; serve ()
  | [ "step"; path ] -> step path; serve ()
  | [ "weak" ] -> weak (); serve ()
  | [ "collect" ] -> collect (); serve ()
  | [ "die"; copies ] -> fail_copies (int_of_string copies) false; serve ()
  | [ "hang"; copies ] -> fail_copies (int_of_string copies) true; serve ()
  | _ -> ignore (Sys.opaque_identity (outside, !kept, !strings, !young, !some, !fillers, !ephemerons, !weak_array, !keys))

let () =
  fill ();
  kept_words := Obj.reachable_words (Obj.repr !kept);
  Handshake.ready ();
  serve ()
