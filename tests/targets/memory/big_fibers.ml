(* SPDX-License-Identifier: Apache-2.0 *)
(* Fibers that wait deep in a recursion. Argument 1 is their number, argument 2 the depth in calls. *)

open Effect
open Effect.Deep

type _ Effect.t += Wait : int -> int Effect.t

let waiting : (int, unit) continuation list ref = ref []
let rec deep k n = if k = 0 then perform (Wait n) else 1 + deep (k - 1) n

let run k n =
  match_with
    (fun () -> ignore (deep k n))
    ()
    { retc = Fun.id;
      exnc = raise;
      effc =
        (fun (type a) (effect_ : a Effect.t) ->
          match effect_ with
          | Wait _ -> Some (fun (k : (a, unit) continuation) -> waiting := k :: !waiting)
          | _ -> None) }

let () =
  for i = 1 to Handshake.int_argument 1 50 do run (Handshake.int_argument 2 20_000) i done;
  Handshake.ready ();
  ignore (Handshake.command ());
  ignore (Sys.opaque_identity !waiting)
