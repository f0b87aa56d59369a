(* SPDX-License-Identifier: Apache-2.0 *)
(* "cache ROUNDS" replaces random blocks of a full cache: live memory fluctuates but does not
   grow. "leak ROUNDS" also keeps a block of 500 bytes for every twentieth replacement. *)

let slots = 5_000
let cache = Array.make slots Bytes.empty
let kept = ref []
let[@inline never] make size = Bytes.create size
let[@inline never] replace () = cache.(Random.int slots) <- make (100 + Random.int 900)
let[@inline never] keep () = kept := Bytes.create 500 :: !kept

let round leaks =
  for i = 1 to 2_000 do
    replace ();
    if leaks && i mod 20 = 0 then keep ()
  done

let () =
  match Sys.argv with
  | [| _; what; rounds |] ->
    for _ = 1 to int_of_string rounds do round (what = "leak") done;
    ignore (Sys.opaque_identity (List.length !kept))
  | _ -> failwith "growth cache|leak ROUNDS"
