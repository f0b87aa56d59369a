(* SPDX-License-Identifier: Apache-2.0 *)
(* Holds memory of C's malloc by custom blocks of several kinds, and by none, and says how much by malloc's own count.

   Commands: "hold N" takes N of each kind, half of them from a queue that keeps the others for good; "drop" lets go of
   that half; "raw N" takes N more by abstract blocks, and in OCaml 4 as many by pointers in records. All answer with bytes
   and chunks by kind, of what has not been freed yet. *)

type list_
type file

external make_list : int -> list_ = "c_owners_list"
external open_file : string -> file = "c_owners_file"
external hold_by_none : int -> unit = "c_owners_hold"
external make_abstract : int -> Obj.t = "c_owners_abstract"
external make_naked : int -> Obj.t = "c_owners_naked"
external count : int -> int * int = "c_owners_count"

module Cache = struct
  let lists : list_ list ref = ref []
  let files : file array ref = ref [||]
end

let arrays : (char, Bigarray.int8_unsigned_elt, Bigarray.c_layout) Bigarray.Array1.t list ref = ref []
let parts = ref []
let dropped = ref []
let abstract = ref []
let naked = ref []

let make_array i =
  (* Some have mappings of their own. *)
  let array = Bigarray.(Array1.create char c_layout (if i mod 10 = 0 then 300_000 else 5_000)) in
  Bigarray.Array1.fill array '\001';
  array

let hold n =
  Cache.lists := List.init n (fun i -> make_list (1 + (i mod 7)));
  Cache.files := Array.init n (fun _ -> open_file "/dev/zero");
  dropped := List.init n (fun i -> make_list (1 + (i mod 3)));
  for _ = 1 to n do hold_by_none 1_000 done;
  let made = List.init n make_array in
  (* Shares the memory of what it is a part of, which then stays. *)
  parts := List.filteri (fun i _ -> i mod 2 = 0) made |> List.map (fun a -> Bigarray.Array1.sub a 100 50);
  arrays := List.filteri (fun i _ -> i mod 2 = 1) made;
  Gc.minor ()

let answer () =
  let pair kind = let bytes, chunks = count kind in Printf.sprintf "[%d,%d]" bytes chunks in
  Printf.printf "{\"lists\":%s,\"files\":%s,\"none\":%s,\"abstract\":%s,\"naked\":%s}\n%!" (pair 0) (pair 1) (pair 2) (pair 3)
    (pair 4)

let rec serve () =
  match Handshake.command () with
  | [ "hold"; n ] -> hold (int_of_string n); answer (); serve ()
  | [ "raw"; n ] ->
      abstract := make_abstract 1_000_000 :: List.init (int_of_string n) (fun i -> make_abstract (2_000 + i));
      naked := List.init (int_of_string n) (fun i -> make_naked (3_000 + i));
      answer (); serve ()
  | [ "drop" ] -> dropped := []; Gc.full_major (); answer (); serve ()
  | _ -> ignore (Sys.opaque_identity (!Cache.lists, !Cache.files, !arrays, !parts, !dropped, !abstract, !naked))

let () =
  Handshake.ready ();
  serve ()
