(* SPDX-License-Identifier: Apache-2.0 *)
(* Publishes values in every way of Memprof_values, and from C code in every way of memprof_values.h.

   Commands, each of which answers a line of JSON:
     hit N      N hits in each of 4 threads, and in each of 2 threads of C code
     time N     starts and stops a timer N times, in two functions; enters another one once more
     nap N      the same timer N times, 20 ms each
     phase X    "enter" or "leave"
     set N      sets values that follow from N
     log TEXT   logs a line
     mark N     marks N more records, which share a list
     churn N    marks N values that die immediately; answers the words of the tag
     forget     drops all marked values; after a full collection marks one more
     pause X N  pauses for at most N ms; answers whether a viewer resumed it
     minor      runs a minor collection
     poll       polls for requests
     many N     creates and hits N points with new names
     fork       forks a child that hits 3 times, sets values of C code, and waits
     exec F     executes the program F
     forks N    forks up to N children while threads of C code write; answers how many could write
     words N    answers the words that N points, timers and lines allocate
     library F  opens a library of C code, which publishes values; without F closes it
     marshal    marshals a function that holds a point, and reads it back; answers whether this made a copy; calls both
     spin S     for S seconds uses a timer, and sets a text of C code with equal letters *)
open Memprof_values

external c_setup : unit -> unit = "reports_setup"
external c_hit : int -> unit = "reports_hit"
external c_set : int -> unit = "reports_set"
external c_spin : int -> unit = "reports_spin"
external c_forks : int -> int = "reports_forks"
external c_library : string -> bool = "reports_library"

let requests = Point.create ~labels:[ ("route", "/a") ] ~unit:"requests" "requests"
let others = Point.create ~labels:[ ("route", "/b") ] ~unit:"requests" "requests"
let handling = Timer.create "handling"
let waiting = Timer.create ~labels:[ ("queue", "in") ] "waiting"
let load = Phase.create "load"
let count = ref 0
let ratio = ref 0.0
let flag = ref false
let word = ref ""
let table : (int, string) Hashtbl.t = Hashtbl.create 16
let evaluated = ref 0
let asked = ref 0

type node = { label : string; mutable next : node list }

(* A leaf with two holders, and a pointer back. *)
let graph =
  let leaf = { label = "leaf"; next = [] } in
  let inner = { label = "inner"; next = [ leaf ] } in
  let root = { label = "root"; next = [ inner; leaf ] } in
  inner.next <- root :: inner.next;
  root

let () =
  c_setup ();
  Value.int ~unit:"things" "count" count;
  Value.float "ratio" ratio;
  Value.bool "flag" flag;
  Value.string "word" word;
  Value.any "table" table;
  Value.any "graph" graph;
  Value.int_of ~period_ms:1 "twice" (fun () -> incr evaluated; 2 * !count);
  Value.int_of "usual" (fun () -> 0);
  Value.float_of ~period_ms:1 "half" (fun () -> float_of_int !count /. 2.0);
  Value.string_of ~period_ms:1 "text" (fun () -> string_of_int !count);
  Value.int_of ~period_ms:1 "failing" (fun () -> failwith "no");
  on_request "double" (fun text -> incr asked; string_of_int (2 * int_of_string text));
  on_request ~only_at_poll:true "careful" (fun text -> incr asked; String.uppercase_ascii text)

type marked = { number : float; shared : int list }

let tag = Tag.create ~labels:[ ("kind", "record") ] "marked"
let same_tag = Tag.create ~labels:[ ("kind", "record") ] "marked"
let kept = ref []

(* Every second record dies immediately. Returns the words of the live ones. *)
let mark n =
  let shared = List.init 1000 Fun.id in
  for i = 1 to n do
    let one = { number = float_of_int i; shared } in
    Tag.mark (if i mod 4 < 2 then tag else same_tag) one;
    if i mod 2 = 0 then kept := one :: !kept
  done;
  Tag.mark tag n;
  Gc.full_major ();
  let all = Array.of_list !kept in
  Obj.reachable_words (Obj.repr all) - Array.length all - 1

let churn n =
  for i = 1 to n do Tag.mark tag (Sys.opaque_identity (ref i)) done;
  Obj.reachable_words (Obj.repr tag)

let forget () =
  kept := [];
  Gc.full_major ();
  Gc.full_major ();
  kept := [ { number = 0.5; shared = [] } ];
  Tag.mark tag (List.hd !kept)

let set n =
  count := n;
  ratio := float_of_int n /. 4.0;
  flag := n mod 2 = 1;
  word := String.make (n mod 100) 'w';
  Hashtbl.reset table;
  for i = 1 to n mod 1000 do Hashtbl.replace table i "x" done;
  c_set n

let hit n =
  let work () = for _ = 1 to n do Point.hit requests done in
  List.iter Thread.join (List.init 4 (fun _ -> Thread.create work ()));
  Point.add others (-n);
  c_hit n

let[@inline never] stop started = Timer.stop handling started
let time n = for _ = 1 to n do stop (Timer.start handling) done

let nap n =
  for _ = 1 to n do
    let started = Timer.start handling in
    Unix.sleepf 0.02;
    stop started
  done

let words n =
  let before = Gc.minor_words () in
  for _ = 1 to n do
    Point.hit others;
    Timer.stop handling (Timer.start handling);
    Phase.enter load;
    Phase.leave load;
    Log.line "a line"
  done;
  Gc.minor_words () -. before

let fork () =
  match Unix.fork () with
  | 0 ->
    for _ = 1 to 3 do Point.hit requests done;
    c_set 0;
    Unix.sleep 1000;
    exit 0
  | pid -> pid

let spin seconds =
  let until = Unix.gettimeofday () +. seconds in
  while Unix.gettimeofday () < until do time 1_000; c_spin 1_000 done

let marshal () =
  let own = Sys.opaque_identity (Point.create "marshalled") in
  let hit () = Point.hit own in
  hit ();
  match (Marshal.from_string (Marshal.to_string hit [ Marshal.Closures ]) 0 : unit -> unit) with
  | copy -> copy (); true
  | exception Invalid_argument _ -> false

let answer text = Printf.printf "{%s}\n%!" text

let run = function
  | [ "hit"; n ] -> hit (int_of_string n); answer ""
  | [ "time"; n ] -> time (int_of_string n); Timer.enter waiting; answer ""
  | [ "nap"; n ] -> nap (int_of_string n); answer ""
  | [ "phase"; "enter" ] -> Phase.enter load; answer ""
  | [ "phase"; _ ] -> Phase.leave load; answer ""
  | [ "set"; n ] -> set (int_of_string n); answer ""
  | "log" :: text -> Log.printf "%s" (String.concat " " text); answer (Printf.sprintf "\"on\": %b" (Log.is_on ()))
  | [ "mark"; n ] -> answer (Printf.sprintf "\"words\": %d" (mark (int_of_string n)))
  | [ "churn"; n ] -> answer (Printf.sprintf "\"words\": %d" (churn (int_of_string n)))
  | [ "forget" ] -> forget (); answer ""
  | [ "pause"; name; ms ] -> answer (Printf.sprintf "\"resumed\": %b" (pause ~wait_ms:(int_of_string ms) name))
  | [ "minor" ] -> Gc.minor (); answer (Printf.sprintf "\"evaluated\": %d, \"asked\": %d" !evaluated !asked)
  | [ "poll" ] -> poll (); answer (Printf.sprintf "\"asked\": %d" !asked)
  | [ "many"; n ] -> for i = 1 to int_of_string n do Point.hit (Point.create (string_of_int i)) done; answer ""
  | [ "fork" ] -> answer (Printf.sprintf "\"pid\": %d" (fork ()))
  | [ "exec"; file ] -> Unix.execv file [| file |]
  | [ "forks"; n ] -> answer (Printf.sprintf "\"well\": %d" (c_forks (int_of_string n)))
  | [ "words"; n ] -> answer (Printf.sprintf "\"words\": %.0f" (words (int_of_string n)))
  | "library" :: file -> answer (Printf.sprintf "\"done\": %b" (c_library (String.concat " " file)))
  | [ "marshal" ] -> answer (Printf.sprintf "\"copied\": %b" (marshal ()))
  | [ "spin"; seconds ] -> spin (float_of_string seconds); answer ""
  | other -> failwith (String.concat " " other)

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | command -> run command; serve ()

let () =
  Handshake.ready ();
  serve ()
