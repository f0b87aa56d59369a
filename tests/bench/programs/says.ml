(* SPDX-License-Identifier: Apache-2.0 *)
(* What it costs a program to say something about itself. "run KIND WORKERS N" does N turns in each of so many threads, of
   OCaml 5 domains, and answers {"cpu":S}: CPU seconds of all. Kinds: "bare", some ten nanoseconds of work a turn; "points" and
   "timers", the same with a hit or around it; "blocks", a new block a turn of which a tenth lives on; "marks", which marks it. *)
open Memprof_values

let point = Point.create "turns"
let timer = Timer.create "turn"
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
  | "blocks" -> blocks
  | "marks" -> marks
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
