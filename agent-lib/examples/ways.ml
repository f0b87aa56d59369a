(* SPDX-License-Identifier: Apache-2.0 *)
(* A program that was written for Ocamlviz and now publishes the same through Memprof_values. A comment above each line
   names the code that it replaces.

   The way of a number halves it if it is even, otherwise triples it and adds one, until it reaches 1. Among the numbers up
   to the first argument, the program finds those whose way is longer than all before, and remembers the length of each
   way. Then it waits for the end of its standard input. The second argument is the number of milliseconds for which it
   first waits for a viewer.

     ocamlfind ocamlopt -package memprof-agent.values -linkpkg ways.ml -o ways
     ./ways 1000000
     sudo memprofctl values watch --pid $(pidof ways) . *)
open Memprof_values

(* Replaces Ocamlviz.Point.create "steps", and Ocamlviz.Point.observe at each step *)
let steps = Point.create ~unit:"steps" "steps"

(* Replaces Ocamlviz.Time.create "search", and Ocamlviz.Time.start and stop around each number *)
let search = Timer.create "search"

(* Replaces Ocamlviz.Hashtable.observe ~period:100 "known" (Hashtbl.create 16); here it is read when
   a viewer requests it *)
let known : (int, int) Hashtbl.t = Hashtbl.create 16
let () = Value.any "known" known

(* Replaces a function that Ocamlviz called each period; a viewer reads a reference directly *)
let number = ref 0
let () = Value.int "number" number

(* A value that is not a reference is computed by a function here too, after a minor collection *)
let () = Value.float_of ~period_ms:100 "share" (fun () -> float_of_int !number /. float_of_int (Hashtbl.length known))

(* Replaces a tree that a function made for Ocamlviz each period; here viewers read the structure
   itself, in which ways meet and form cycles *)
type place = { at : int; mutable next : place list }

let places : (int, place) Hashtbl.t = Hashtbl.create 16
let ways : place list ref = ref []
let () = Value.any "ways" ways

let next n = if n land 1 = 0 then n / 2 else (3 * n) + 1

let rec place_at n =
  match Hashtbl.find_opt places n with
  | Some place -> place
  | None ->
    let place = { at = n; next = [] } in
    Hashtbl.add places n place;
    place.next <- [ place_at (next n) ];
    place

let rec length n =
  if n = 1 then 0
  else
    match Hashtbl.find_opt known n with
    | Some length -> length
    | None ->
      Point.hit steps;
      let length = 1 + length (next n) in
      Hashtbl.add known n length;
      length

let longest = ref 0

(* The last ten of the longest ways are kept. *)
type record = { start : int; length : int; way : place }

let records = ref []

(* Replaces a tag of Ocamlviz, which traversed all marked values each period; here the viewer does
   so from outside *)
let marked = Tag.create "records"

(* Replaces Ocamlviz.log *)
let found start length =
  longest := length;
  Log.printf "%d steps from %d" length start;
  let record = { start; length; way = place_at start } in
  Tag.mark marked record;
  records := List.filteri (fun i _ -> i < 10) (record :: !records);
  ways := List.map (fun record -> record.way) !records

let try_number n =
  number := n;
  let started = Timer.start search in
  let length = length n in
  Timer.stop search started;
  if length > !longest then found n length

let rec serve () =
  match input_line stdin with
  | exception End_of_file -> ()
  | _ ->
    (* A loop that allocates little must poll for requests itself. *)
    Value.poll ();
    print_endline "{}";
    serve ()

let () =
  let last = if Array.length Sys.argv > 1 then int_of_string Sys.argv.(1) else 1_000_000 in
  print_endline "ready";
  (* Replaces Ocamlviz.init and Ocamlviz.wait_for_connected_clients 1 *)
  let wait_ms = if Array.length Sys.argv > 2 then int_of_string Sys.argv.(2) else 0 in
  ignore (pause ~wait_ms "before the search" : bool);
  for n = 1 to last do
    try_number n
  done;
  Gc.full_major ();
  List.iter (fun { start; length; _ } -> Printf.printf "%d: %d steps\n%!" start length) !records;
  serve ()
