(* SPDX-License-Identifier: Apache-2.0 *)
(* A function on the stack of a fiber of its own, which is left for a moment before it is called. *)
type _ Effect.t += Leave : unit Effect.t

let fiber f =
  Effect.Deep.match_with
    (fun () -> Effect.perform Leave; f ())
    ()
    { retc = Fun.id; exnc = raise;
      effc = fun (type a) (leave : a Effect.t) ->
        match leave with
        | Leave -> Some (fun (k : (a, _) Effect.Deep.continuation) -> Effect.Deep.continue k ())
        | _ -> None }

(* In a domain of its own; answers with how to wait for its end. *)
let aside f =
  let domain = Domain.spawn f in
  fun () -> Domain.join domain
