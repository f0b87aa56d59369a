(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: domains that replace globals at full speed. All numbers in a value are equal, so that torn reads show. The
   argument is the number of domains. Ends with its input. *)

type tree = Leaf of int | Node of tree * int * tree

let first_list = ref [ 0; 0 ]
let first_tuple = ref (0, (0, (0, 0)))
let first_tree = ref (Node (Leaf 0, 0, Leaf 0))
let second_list = ref [ 0; 0 ]
let second_tuple = ref (0, (0, (0, 0)))
let second_tree = ref (Node (Leaf 0, 0, Leaf 0))
let stopping = Atomic.make false

let rec tree depth n = if depth = 0 then Leaf n else Node (tree (depth - 1) n, n, tree (depth - 1) n)

let replace list tuple deep () =
  let n = ref 0 in
  while not (Atomic.get stopping) do
    incr n;
    list := List.init 20 (fun _ -> !n);
    tuple := (!n, (!n, (!n, !n)));
    if !n mod 10 = 0 then deep := tree 4 !n;
    if !n mod 100_000 = 0 then Gc.compact ();
    if !n mod 1_000 = 0 then Unix.sleepf 0.0005
  done

let () =
  let work = [ replace first_list first_tuple first_tree; replace second_list second_tuple second_tree ] in
  let domains = List.map Domain.spawn (List.filteri (fun i _ -> i < Handshake.int_argument 1 2) work) in
  Handshake.ready ();
  (try ignore (input_line stdin) with End_of_file -> ());
  Atomic.set stopping true;
  List.iter Domain.join domains
