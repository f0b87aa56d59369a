(* SPDX-License-Identifier: Apache-2.0 *)
(* Structures that are replaced all the time, each with a proof of being whole: in every one each number follows from the one
   before, and all have the number of its own place in them. The argument is how many threads, of OCaml 5 domains, do that, one
   to four. Ends with its input. *)

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

(* As many bindings as the last bits of the number say. *)
let table_of x =
  let table = Hashtbl.create 8 in
  for key = 1 to x land 31 do Hashtbl.replace table key x done;
  ((x, link x), table)

(* References lie on pages of their own. *)
let apart make place =
  let held = ref (make (first place 1)) in
  let gap = List.init 400 ref in
  Gc.minor ();
  at_exit (fun () -> ignore (Sys.opaque_identity gap));
  held

let four make =
  let a = apart make 0 in
  let b = apart make 1 in
  let c = apart make 2 in
  (a, b, c, apart make 3)
let list0, list1, list2, list3 = four list_of
let pairs0, pairs1, pairs2, pairs3 = four pairs_of
let tree0, tree1, tree2, tree3 = four tree_of
let floats0, floats1, floats2, floats3 = four floats_of
let text0, text1, text2, text3 = four text_of
let table0, table1, table2, table3 = four table_of

(* Replaced seldom: they live long enough to die in the major heap. *)
let old0, old1, old2, old3 = four list_of
let stopping = ref false

(* So slowly that what is new lies on a page that was there before. *)
let replace_text text x =
  for i = 1 to 20 do
    for _ = 1 to 3_000 do ignore (Sys.opaque_identity i) done;
    text := text_of (first (x lsr 20) (x + i))
  done

(* What has been replaced stays for a while in which collections go on, so that it is they who overtake a reader, not what
   comes next. *)
let stay () =
  for _ = 1 to 20 do
    for _ = 1 to 20 do ignore (Sys.opaque_identity (Array.make 100 0)) done;
    for i = 1 to 100_000 do ignore (Sys.opaque_identity i) done
  done

let replace place list pairs tree floats text table old () =
  let n = ref 0 in
  while not !(Sys.opaque_identity stopping) do
    incr n;
    let x = first place !n in
    list := list_of x;
    pairs := pairs_of x;
    tree := tree_of x;
    floats := floats_of x;
    if !n land 4095 = 0 then replace_text text x else if !n land 7 = 0 then text := text_of x;
    if !n land 31 = 0 then table := table_of x;
    if !n mod 400 = 0 then old := list_of x;
    if place = 0 && !n mod 5_000 = 0 then Gc.compact ();
    if !n mod 100 = 0 then stay ();
    (* A processor that collects all the time leaves no moment in which a value can be read. *)
    if !n mod 200 = 0 then Unix.sleepf 0.0005
  done

let () =
  let work =
    [ replace 0 list0 pairs0 tree0 floats0 text0 table0 old0; replace 1 list1 pairs1 tree1 floats1 text1 table1 old1;
      replace 2 list2 pairs2 tree2 floats2 text2 table2 old2; replace 3 list3 pairs3 tree3 floats3 text3 table3 old3 ]
  in
  let join = Workers.all (List.filteri (fun i _ -> i < Handshake.int_argument 1 1) work) in
  Handshake.ready ();
  (try ignore (input_line stdin) with End_of_file -> ());
  stopping := true;
  join ()
