(* SPDX-License-Identifier: Apache-2.0 *)
(* Values of all shapes in the globals of a module, and some that are replaced at full speed. All numbers in one of the
   latter are equal, so that torn reads show.

   Commands: "set N" sets values that follow from N; "churn SECONDS" continuously replaces the others, with collections
   and compactions in between; "grow N" gives some N elements; "wait SECONDS" allocates occasionally; all answer {}. *)

type record = { a : int; b : float; c : string; mutable d : int }
type tree = Leaf of int | Node of tree * int * tree

module Names = Map.Make (String)
module Ints = Set.Make (Int)

let count = ref 0
let ratio = ref 0.0
let word = ref (String.make 3 'x')
let numbers = ref [ 1; 2 ]
let record = ref { a = 0; b = 0.0; c = ""; d = 0 }
let table : (int, string) Hashtbl.t = Hashtbl.create 16
let queue : int Queue.t = Queue.create ()
let names = ref Names.empty
let ints = ref Ints.empty
let wide = ref 0L
let floats = ref [| 0.0 |]
let later = ref (lazy (String.length !word))
let secret = ref (Bytes.to_string (Bytes.of_string "correct horse battery staple"))

(* Replaced continuously. *)
let busy_list = ref [ 0; 0 ]
let busy_tuple = ref (0, (0, (0, 0)))
let busy_float = ref (0.0, 0.0)
let busy_tree = ref (Node (Leaf 0, 0, Leaf 0))
let old_list = ref [ 0; 0 ]

let set n =
  count := n;
  ratio := float_of_int n /. 2.0;
  word := String.make (n mod 100) 'w';
  numbers := List.init (n mod 1000) (fun i -> i + n);
  record := { a = n; b = float_of_int n; c = string_of_int n; d = -n };
  Hashtbl.reset table;
  Queue.clear queue;
  for i = 1 to n mod 5000 do
    Hashtbl.replace table i (string_of_int i);
    Queue.push (i * 3) queue
  done;
  names := Names.of_seq (Seq.map (fun i -> (string_of_int i, i)) (List.to_seq (List.init (n mod 700) Fun.id)));
  ints := Ints.of_list (List.init (n mod 300) Fun.id);
  wide := Int64.mul (Int64.of_int n) 10_000_000_000L;
  floats := Array.make (n mod 50) 1.5

let grow n =
  numbers := List.init n Fun.id;
  Hashtbl.reset table;
  for i = 1 to n do Hashtbl.replace table i "x" done;
  names := Names.of_seq (Seq.map (fun i -> (string_of_int i, i)) (List.to_seq (List.init n Fun.id)));
  ints := Ints.of_list (List.init n Fun.id)

let rec tree depth n = if depth = 0 then Leaf n else Node (tree (depth - 1) n, n, tree (depth - 1) n)

let step n =
  busy_list := List.init 20 (fun _ -> n);
  busy_tuple := (n, (n, (n, n)));
  busy_float := (float_of_int n, float_of_int n);
  busy_tree := tree 4 n;
  if n mod 500 = 0 then old_list := List.init 20 (fun _ -> n);
  if n mod 50_000 = 0 then Gc.compact ()

let churn seconds =
  let until = Unix.gettimeofday () +. seconds in
  let rec go n =
    (* Continuous collections would leave no moment in which a value can be read. *)
    if n mod 1_000 = 0 then Unix.sleepf 0.0005;
    if n mod 100 <> 0 || Unix.gettimeofday () < until then (step n; go (n + 1))
  in
  go 1

let wait seconds =
  let until = Unix.gettimeofday () +. seconds in
  while Unix.gettimeofday () < until do
    Unix.sleepf 0.005;
    ignore (Sys.opaque_identity (List.init 10 Fun.id))
  done

let rec serve () =
  match Handshake.command () with
  | [ "set"; n ] -> set (int_of_string n); print_string "{}\n"; flush stdout; serve ()
  | [ "grow"; n ] -> grow (int_of_string n); print_string "{}\n"; flush stdout; serve ()
  | [ "wait"; seconds ] -> wait (float_of_string seconds); print_string "{}\n"; flush stdout; serve ()
  | [ "churn"; seconds ] -> churn (float_of_string seconds); print_string "{}\n"; flush stdout; serve ()
  | [ "exit" ] -> ()
  | other -> failwith (String.concat " " other)

let () =
  set 7;
  Handshake.ready ();
  serve ()
