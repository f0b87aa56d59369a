(* SPDX-License-Identifier: Apache-2.0 *)
(* stack_walk FRAMES ANEW ROUNDS: walks a stack of a few more than FRAMES frames, alternating between the agent's walk and
   the runtime's. The ANEW innermost frames are new each time. Prints {"frames":N,"delta":NS,"runtime":NS} for each
   round, the thread CPU time of one walk. Fails if the walks find different numbers of frames. *)

external delta_walk : int -> int -> float = "bench_delta_walk"
external runtime_walk : int -> int -> float = "bench_runtime_walk"
external frames : unit -> int = "bench_frames"

let argument n = int_of_string Sys.argv.(n)
let anew = argument 2

let walks frames = max 100 (400_000 / (frames + 20))

let[@inline never] measure () =
  let frames = frames () in
  let times = walks frames in
  for round = 1 to argument 3 do
    let delta, runtime =
      if round land 1 = 0 then
        let delta = delta_walk anew times in
        (delta, runtime_walk anew times)
      else
        let runtime = runtime_walk anew times in
        (delta_walk anew times, runtime)
    in
    Printf.printf "{\"frames\":%d,\"delta\":%.2f,\"runtime\":%.2f}\n" frames delta runtime
  done

(* Adjacent frames differ, and no call is a tail call. *)
let[@inline never] rec accept n = if n = 0 then (measure (); 0) else route (n - 1) + 1
and[@inline never] route n = if n = 0 then (measure (); 0) else lookup (n - 1) + 1
and[@inline never] lookup n = if n = 0 then (measure (); 0) else respond (n - 1) + 1
and[@inline never] respond n = if n = 0 then (measure (); 0) else accept (n - 1) + 1

let () = ignore (Sys.opaque_identity (accept (argument 1)))
