(* SPDX-License-Identifier: Apache-2.0 *)
(* OCaml 5: functions that count their own calls. During a call their fiber is suspended, resumed or ended, or gets a larger
   stack.

   "go N" runs N rounds and answers {"counts":{"Traced_fibers.waits":N,...}}, counted since the start. "hop N" makes N calls
   that begin in one domain and continue in another. *)

open Effect
open Effect.Deep

type _ Effect.t += Wait : int -> int Effect.t

let waits_count = ref 0
let runs_count = ref 0
let grows_count = ref 0
let ended_count = ref 0
let sink = ref 0
let[@inline never] nothing () = ignore (Sys.opaque_identity !sink)

(* Suspended during the call, and resumed. *)
let[@inline never] waits n =
  incr waits_count;
  let m = perform (Wait n) in
  nothing ();
  m + 1

let[@inline never] rec grows n =
  incr grows_count;
  if n = 0 then 0 else 1 + grows (n - 1)

(* Never returns: an exception ends its fiber. *)
let[@inline never] ended n =
  incr ended_count;
  let m = perform (Wait n) in
  nothing ();
  m + 1

let queue : (unit -> unit) Queue.t = Queue.create ()

exception Enough

let[@inline never] runs work n =
  incr runs_count;
  match_with work n
    { retc = (fun m -> sink := !sink + m);
      exnc = (function Enough -> () | e -> raise e);
      effc = (fun (type a) (e : a Effect.t) ->
        match e with
        | Wait n when n < 0 -> Some (fun (k : (a, _) continuation) -> discontinue k Enough)
        | Wait n -> Some (fun (k : (a, _) continuation) -> Queue.add (fun () -> continue k n) queue)
        | _ -> None) }

let round i =
  runs waits i;
  runs (fun n -> waits n + waits (n + 1)) i;
  runs (fun n -> grows (n mod 400) + waits n) i;
  runs ended (-i);
  if i land 3 = 0 then
    while not (Queue.is_empty queue) do (Queue.pop queue) () done

let answer () =
  Printf.printf
    "{\"counts\":{\"Traced_fibers.waits\":%d,\"Traced_fibers.runs\":%d,\"Traced_fibers.grows\":%d,\"Traced_fibers.ended\":%d}}\n%!"
    !waits_count !runs_count !grows_count !ended_count

(* The call is suspended in this domain and resumed in another. *)
let hop i =
  runs waits i;
  Domain.join (Domain.spawn (fun () -> (Queue.pop queue) ()))

let rec serve () =
  match Handshake.command () with
  | [ "go"; rounds ] ->
    for i = 1 to int_of_string rounds do round i done;
    while not (Queue.is_empty queue) do (Queue.pop queue) () done;
    answer ();
    serve ()
  | [ "hop"; times ] -> for i = 1 to int_of_string times do hop i done; answer (); serve ()
  | _ -> ()

let () =
  Handshake.ready ();
  serve ()
