(* SPDX-License-Identifier: Apache-2.0 *)
(* Structures in which torn reads show: each number follows from the previous one, and all contain the number of the place
   of the structure. Module Torn (names.sh) has references to them; this module replaces their contents. *)

type tree = Leaf of int | Node of tree * int * tree

let link x = (x land lnot 0xfffff) lor (((x * 31) + 7) land 0xfffff)
let first place n = (place lsl 20) lor (n land 0xfffff)

let list_of x =
  let rec go left x = if left = 0 then [] else x :: go (left - 1) (link x) in
  go 8 x

let pairs_of x =
  let y = link x in
  let z = link y in
  ((x, y), (z, link z), link (link z))

let tree_of x = Node (Leaf x, link x, Leaf (link (link x)))
let floats_of x = (float_of_int x, float_of_int (link x), float_of_int (link (link x)))
let text_of x = Printf.sprintf "%08x%08x%08x" x (link x) (link (link x))

(* The last bits of the number are the number of bindings. *)
let table_of x =
  let table = Hashtbl.create 8 in
  for key = 1 to x land 31 do Hashtbl.replace table key x done;
  ((x, link x), table)

(* Returns a function that creates a structure at a place, for worker place mod 4, and one that replaces all structures of a
   worker. The structures of a worker are created in sequence, and lie on a separate page. *)
let kind make =
  let setters = Array.make 4 [] in
  let held place =
    let worker = place land 3 in
    if setters.(worker) = [] then begin
      let gap = List.init 400 ref in
      Gc.minor ();
      at_exit (fun () -> ignore (Sys.opaque_identity gap))
    end;
    let held = ref (make (first place 1)) in
    setters.(worker) <- (fun n -> held := make (first place n)) :: setters.(worker);
    held
  in
  (held, fun worker n -> List.iter (fun set -> set n) setters.(worker))

let list, replace_lists = kind list_of
let pairs, replace_pairs = kind pairs_of
let tree, replace_trees = kind tree_of
let floats, replace_floats = kind floats_of
let text, replace_texts = kind text_of
let table, replace_tables = kind table_of
let old, replace_olds = kind list_of
