(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocates until the command "exec PROGRAM ARGS...", then executes that program. *)

let[@inline never] allocate () =
  for i = 1 to 100_000 do ignore (Sys.opaque_identity (i, i, i)) done

let rec run () =
  allocate ();
  match Handshake.poll_command () with
  | Some ("exec" :: program :: arguments) ->
    Unix.execv program (Array.of_list (program :: arguments))
  | Some [ "exit" ] -> ()
  | Some _ | None -> run ()

let () =
  Handshake.ready ();
  run ()
