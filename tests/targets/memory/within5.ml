(* SPDX-License-Identifier: Apache-2.0 *)
(* Calls a function in a new fiber, which is suspended and resumed before the call. *)
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

(* Runs a function in a new domain. Returns a function that waits for its end. *)
let aside f =
  let domain = Domain.spawn f in
  fun () -> Domain.join domain
