(* SPDX-License-Identifier: Apache-2.0 *)
(* Functions that count their own calls, to compare with call traces: recursion, tail calls, loops, exceptions, switches,
   closures, threads. "go N" runs N rounds and answers {"counts":{"Traced.deep":N,...},"seconds":S}, counted since the start.

   "allocate N" calls a function that allocates 301,001 words N times. "spin" calls a function until the next command, and
   answers the same. "fork" calls a function in a child, whose calls must not count. *)

let counts : (string * int ref) list ref = ref []

let counter name =
  let count = ref 0 in
  counts := ("Traced." ^ name, count) :: !counts;
  count

let deep_count = counter "deep"
let even_count = counter "even"
let odd_count = counter "odd"
let turns_count = counter "turns"
let raiser_count = counter "raiser"
let passer_count = counter "passer"
let catcher_count = counter "catcher"
let chooser_count = counter "chooser"
let closed_count = counter "closed"
let build_count = counter "build"
let threaded_count = counter "threaded"
let allocates_count = counter "allocates"
let paired_count = counter "paired"
let sink = ref 0

let[@inline never] rec deep n =
  incr deep_count;
  if n = 0 then 0 else 1 + deep (n - 1)

(* They tail-call each other, by a jump. *)
let[@inline never] rec even n =
  incr even_count;
  if n = 0 then true else odd (n - 1)

and[@inline never] odd n =
  incr odd_count;
  if n = 0 then false else even (n - 1)

let[@inline never] nothing () = ignore (Sys.opaque_identity !sink)

(* A loop counts as one call, whatever its number of iterations. *)
let[@inline never] rec turns n sum =
  nothing ();
  if n = 0 then sum else turns (n - 1) (sum + n)

let[@inline never] count_turns n =
  incr turns_count;
  sink := !sink + turns n 0

exception Left of int

let[@inline never] raiser n =
  incr raiser_count;
  nothing ();
  if n land 3 = 0 then raise (Left n) else n

(* Its callee's exception ends it. *)
let[@inline never] passer n =
  incr passer_count;
  let m = raiser n in
  nothing ();
  m + 1

let[@inline never] catcher n =
  incr catcher_count;
  try passer n with Left m -> m

type shape = A | B | C | D | E | F | G of int

(* A jump table with some tail calls. *)
let[@inline never] chooser shape =
  incr chooser_count;
  match shape with
  | A -> catcher 4
  | B -> if even 3 then 1 else 2
  | C -> deep 3
  | D -> catcher 1
  | E -> nothing (); 5
  | F -> 6
  | G n -> deep n

let shapes = [| A; B; C; D; E; F; G 2 |]

let[@inline never] closed by x =
  incr closed_count;
  nothing ();
  x + by

let[@inline never] apply f x = f x

(* Allocates 6 words per element: a cell and a pair. *)
let[@inline never] rec build n =
  incr build_count;
  if n = 0 then [] else let rest = build (n - 1) in (n, n) :: rest

let[@inline never] threaded n =
  incr threaded_count;
  nothing ();
  if n land 7 = 0 then Thread.yield ();
  n

let kept = ref []

(* Allocates more than fits into a minor heap, and a block that is too large for it. *)
let[@inline never] allocates n =
  incr allocates_count;
  for i = 1 to n do kept := [ i ] done;
  ignore (Sys.opaque_identity (Array.make 1000 n))

(* Allocates in its first instructions. *)
let[@inline never] pair n = (n, n)

let[@inline never] paired n =
  incr paired_count;
  ignore (Sys.opaque_identity (pair n))

(* The symbol of step does not contain the name of this inner module. *)
module Inner = struct
  let step_count = counter "Inner.step"

  let[@inline never] step n =
    incr step_count;
    nothing ();
    n
end

let round i =
  sink := !sink + Inner.step i;
  sink := !sink + deep (i mod 50);
  if even (i mod 20) then incr sink;
  count_turns (i mod 30);
  sink := !sink + catcher i + chooser shapes.(i mod 7) + apply (closed i) 1;
  sink := !sink + List.length (build 10)

let run_threads rounds =
  let work () = for i = 1 to rounds do sink := !sink + threaded i done in
  List.iter Thread.join (List.init 3 (fun _ -> Thread.create work ()))

let answer began =
  let one (name, count) = Printf.sprintf "\"%s\":%d" name !count in
  Printf.printf "{\"counts\":{%s},\"seconds\":%.6f}\n%!" (String.concat "," (List.map one !counts))
    (Unix.gettimeofday () -. began)

let rec spin () =
  for _ = 1 to 100 do sink := !sink + deep 10 done;
  match Handshake.poll_command () with None -> spin () | Some _ -> ()

let rec serve () =
  let command = Handshake.command () in
  let began = Unix.gettimeofday () in
  match command with
  | [ "go"; rounds ] -> for i = 1 to int_of_string rounds do round i done; answer began; serve ()
  | [ "allocate"; times ] ->
    for i = 1 to int_of_string times do allocates 100_000; paired i done;
    answer began;
    serve ()
  | [ "threads"; rounds ] -> run_threads (int_of_string rounds); answer began; serve ()
  | [ "spin" ] -> spin (); answer began; serve ()
  | [ "fork" ] ->
    (match Unix.fork () with
     | 0 -> sink := deep 100; Unix.kill (Unix.getpid ()) Sys.sigkill
     | child -> ignore (Unix.waitpid [] child));
    answer began;
    serve ()
  | [ "exec" ] -> Unix.execv Sys.executable_name Sys.argv
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
