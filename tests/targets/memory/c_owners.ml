(* SPDX-License-Identifier: Apache-2.0 *)
(* Keeps malloc's chunks in custom blocks of several kinds, and without any owner, and reports malloc's own counts.

   Commands: "hold N" allocates N of each kind, and N lists that can be dropped; "drop" drops these lists; "raw N" allocates
   N more in abstract blocks, and in OCaml 4 as many with pointers in records. All answer the bytes and chunks of each kind
   that have not been freed yet. *)

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
  (* Some are so large that they have their own mappings. *)
  let array = Bigarray.(Array1.create char c_layout (if i mod 10 = 0 then 300_000 else 5_000)) in
  Bigarray.Array1.fill array '\001';
  array

let hold n =
  Cache.lists := List.init n (fun i -> make_list (1 + (i mod 7)));
  Cache.files := Array.init n (fun _ -> open_file "/dev/zero");
  dropped := List.init n (fun i -> make_list (1 + (i mod 3)));
  for _ = 1 to n do hold_by_none 1_000 done;
  let made = List.init n make_array in
  (* A part shares the memory of the whole array, which therefore stays. *)
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
