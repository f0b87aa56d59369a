(* SPDX-License-Identifier: Apache-2.0 *)
(* Compiled under several names. It allocates, and calls the host, which allocates below its frames. *)

let[@inline never] site_in_plugin n =
  for i = 1 to n do ignore (Sys.opaque_identity (i, i, i)) done

let[@inline never] through_plugin f =
  f ();
  ignore (Sys.opaque_identity 1)

let () =
  Plugin_api.register __MODULE__ (fun n f ->
      site_in_plugin n;
      through_plugin f)
