(* SPDX-License-Identifier: Apache-2.0 *)
(* Keeps secret strings, some of them twice, floats, and Buffers.

   "tick" allocates a little. It answers the words of strings that equal an earlier one, and the unused words
   of the Buffers that are mostly unused. *)

let kept_twice = 1_000

(* Computed at run time, so that no file contains them. *)
let secret i = Printf.sprintf "secret-%s-%06d" (String.map Char.uppercase_ascii "of the program") i
let secrets = Array.init (2 * kept_twice) (fun i -> secret (i mod kept_twice))
let long = String.concat "" (List.init 5_000 secret)
let floats = Array.init 100 (fun i -> 12345.5 +. float_of_int i)

let buffer ~size ~used =
  let buffer = Buffer.create 16 in
  Buffer.add_string buffer (String.make size '.');
  Buffer.truncate buffer used;
  buffer

let large = List.init 20 (fun i -> buffer ~size:65_536 ~used:(100 * i))
let full = List.init 20 (fun _ -> buffer ~size:65_536 ~used:60_000)

(* Blocks with the shape of Buffers but other contents. *)
let fields4 = List.init 100 (fun i -> ("secret", i, 16, "secret"))
let fields3 = List.init 100 (fun i -> (("secret", 16), i, "secret"))
let small = ref (ref 0)
let words text = 1 + Obj.size (Obj.repr text)

let unused buffer =
  let capacity = 65_536 in
  (capacity / 8) + 2 - ((Buffer.length buffer / 8) + 2)

let rec serve () =
  match Handshake.command () with
  | [ "tick" ] ->
      for i = 1 to 1_000 do
        small := ref i
      done;
      Printf.printf "{\"equal_words\": %d, \"unused_words\": %d}\n%!" (kept_twice * words secrets.(0))
        (List.fold_left (fun sum buffer -> sum + unused buffer) 0 large);
      serve ()
  | _ -> ignore (Sys.opaque_identity (secrets, long, floats, large, full, fields4, fields3))

let () =
  Handshake.ready ();
  serve ()
