(* SPDX-License-Identifier: Apache-2.0 *)
(* Cost of publishing values. "run KIND WORKERS N" does N turns in each of WORKERS threads (OCaml 5: domains) and answers
   {"cpu":S}, the CPU seconds of all. Kinds: "bare", about ten nanoseconds of work per turn; "points" and "lines" add a hit or
   a line of the log to each turn, "timers" and "phases" enclose it; "blocks" allocates a block per turn, a tenth of which
   survive; "marks" also marks each block; "c_bare" and "c_points" are bare and points in C code. *)
open Memprof_values

let point = Point.create "turns"
let timer = Timer.create "turn"
let phase = Phase.create "working"
let tag = Tag.create "blocks"
let[@inline] step x = let x = x lxor (x lsl 13) in let x = x lxor (x lsr 7) in x lxor (x lsl 17)
let[@inline] work x = step (step (step x))

let bare n () =
  let x = ref 1 in
  for _ = 1 to n do x := work !x done;
  ignore (Sys.opaque_identity !x)

let points n () =
  let x = ref 1 in
  for _ = 1 to n do x := work !x; Point.hit point done;
  ignore (Sys.opaque_identity !x)

let timers n () =
  let x = ref 1 in
  for _ = 1 to n do
    let started = Timer.start timer in
    x := work !x;
    Timer.stop timer started
  done;
  ignore (Sys.opaque_identity !x)

let phases n () =
  let x = ref 1 in
  for _ = 1 to n do
    Phase.enter phase;
    x := work !x;
    Phase.leave phase
  done;
  ignore (Sys.opaque_identity !x)

let lines n () =
  let x = ref 1 in
  for _ = 1 to n do x := work !x; Log.line "turn" done;
  ignore (Sys.opaque_identity !x)

external c_work : bool -> int -> unit = "says_c_work"

let make what n () =
  let kept = ref [] in
  for i = 1 to n do
    let block = Sys.opaque_identity (ref i) in
    what block;
    if i mod 10 = 0 then kept := block :: !kept
  done;
  ignore (Sys.opaque_identity !kept)

let blocks n () = make ignore n ()
let marks n () = make (Tag.mark tag) n ()

let kind = function
  | "bare" -> bare
  | "points" -> points
  | "timers" -> timers
  | "phases" -> phases
  | "lines" -> lines
  | "blocks" -> blocks
  | "marks" -> marks
  | "c_bare" -> fun n () -> c_work false n
  | "c_points" -> fun n () -> c_work true n
  | other -> failwith other

let run f workers n =
  Gc.full_major ();
  let began = Sys.time () in
  (Workers.all (List.init workers (fun _ -> f n))) ();
  Printf.printf "{\"cpu\":%.6f}\n%!" (Sys.time () -. began)

let rec serve () =
  match Handshake.command () with
  | [ "run"; name; workers; n ] -> run (kind name) (int_of_string workers) (int_of_string n); serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
