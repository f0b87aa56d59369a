(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocates native blocks from known lines of OCaml code, in the ways of real libraries, and reports the sizes. Each
   command answers the bytes that C code has requested for it, or "failed".
   "leak N SIZE" keeps N blocks; "streams N" opens and closes N streams with the sizes of zlib's, "keep N" leaves them open;
   "grow N" resizes a block N times, with failed attempts in between; "kinds N" allocates and frees N blocks with each
   function; "pairs N" allocates and frees N blocks of 64 bytes and answers the nanoseconds per pair; "noalloc N" and
   "blocking N" keep blocks of 1,000 bytes from an external without a note, and without the runtime lock; "threads N" starts N
   threads of C that allocate and free blocks, "calm" ends them and frees the rest; "load FILE N" loads a library, which keeps
   N blocks, "unload" unloads it; "fork" runs "kinds" in a child; "spin" works until the next command; "minor" is a minor
   collection; "forbid" installs a seccomp filter that kills for mprotect; "known N" allocates N blocks at each of many lines
   and answers the allocated and kept bytes; "hold N MS" frees N blocks after MS ms; "unseen N SIZE" frees N blocks through a
   pointer from dlsym; "paths N M" allocates N times per size, on the size's path, in M threads. *)

external keep : int -> int -> int = "c_memory_keep"
external stream : bool -> int = "c_memory_stream"
external grow : int -> int = "c_memory_grow"
external kinds : unit -> int = "c_memory_kinds"
external pairs : int -> int = "c_memory_pairs"
external keep_noalloc : (int[@untagged]) -> (int[@untagged]) = "c_memory_byte" "c_memory_keep_noalloc" [@@noalloc]
external keep_blocking : int -> int = "c_memory_keep_blocking"
external threads : int -> unit = "c_memory_threads"
external calm : unit -> unit = "c_memory_calm"
external load : string -> bool = "c_memory_load"
external keep_in_library : int -> int = "c_memory_keep_in_library"
external unload : unit -> unit = "c_memory_unload"
external known : int -> int * int = "c_memory_known"
external hold : int -> int -> int = "c_memory_hold"
external unseen : int -> int -> int = "c_memory_unseen"
external forbid : unit -> unit = "c_memory_forbid"
external operations : unit -> int = "c_memory_operations"

module Cache = struct
  let[@inline never] remember size = keep 1 size + 0
end

module Zip = struct
  let[@inline never] compress () = stream false + 0
  let[@inline never] forget_to_close () = stream true + 0
end

let[@inline never] remember_quickly () = keep_noalloc 1_000 + 0
let[@inline never] remember_slowly () = keep_blocking 1_000 + 0
let[@inline never] resize times = grow times + 0
let[@inline never] free_unseen n size = unseen n size + 0
let[@inline never] remember_in_library () = keep_in_library 1_000 + 0

(* A block's size determines the path of its allocation: a number of frames of [plain], [guarded], [called] and [fibered], and
   one of the leaves at the end. *)
module Path = struct
  external pass : int -> unit = "c_memory_pass"
  external pass_noalloc : int -> unit = "c_memory_pass_noalloc" [@@noalloc]
  external pass_blocking : int -> unit = "c_memory_pass_blocking"
  external call : (unit -> int) -> int = "c_memory_call"

  let sizes = Array.init 24 (fun k -> int_of_float (1_171. *. (1.1 ** float_of_int k)))
  let depth k = 4 + (k mod 23)
  let choice k i = Hashtbl.hash (k, i) mod 4
  let leaf_of k = [| "noted"; "unnoted"; "unlocked"; "noted" |].(k mod 4)

  (* Leaves a note at the place where the next call would have its own. *)
  let[@inline never] deeper () = pass 24; Sys.opaque_identity ()

  let[@inline never] noted k = pass sizes.(k); Sys.opaque_identity 1
  let[@inline never] further k = pass_noalloc sizes.(k); Sys.opaque_identity 0
  let[@inline never] unnoted k =
    deeper ();
    if k land 4 = 0 then begin pass_noalloc sizes.(k); Sys.opaque_identity 1 end else 1 + further k
  let[@inline never] unlocked k = pass_blocking sizes.(k); Sys.opaque_identity 1

  let rec walk k i =
    if i = depth k then match leaf_of k with "noted" -> noted k | "unnoted" -> unnoted k | _ -> unlocked k
    else match choice k i with 0 -> plain k i | 1 -> guarded k i | 2 -> called k i | _ -> fibered k i

  and plain k i = 1 + walk k (i + 1)
  and guarded k i = match walk k (i + 1) with n -> n + 1 | exception Exit -> 0
  and called k i = 1 + call (fun () -> walk k (i + 1) + 0)
  and fibered k i = 1 + Within.fiber (fun () -> walk k (i + 1) + 0)

  let all rounds offset =
    for round = 1 to rounds do
      for k = 0 to Array.length sizes - 1 do
        ignore (Sys.opaque_identity (walk ((k + offset + round) mod Array.length sizes) 0));
        if k mod 16 = 0 then Thread.yield ()
      done
    done

  let names = [| "plain"; "guarded"; "called"; "fibered" |]

  (* Names of the frames, from the leaf outwards. *)
  let frames k = leaf_of k :: List.rev (List.init (depth k) (fun i -> names.(choice k i)))

  let to_string k =
    Printf.sprintf {|{"size":%d,"frames":[%s]}|} sizes.(k)
      (String.concat "," (List.map (Printf.sprintf "%S") (frames k)))

  let run rounds threads =
    List.iter Thread.join (List.init threads (fun i -> Thread.create (all rounds) (7 * i)));
    Printf.printf "{\"paths\":[%s]}\n%!" (String.concat "," (List.init (Array.length sizes) to_string))
end

(* Each site is on a separate line. *)
let known_sites =
  [|
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
    (fun n -> let taken, stay = known n in (taken, stay + 0));
  |]

let known_at n place =
  let taken, stay = known_sites.(place) n in
  Printf.sprintf "[%d,%d]" taken stay

let sum n f =
  let total = ref 0 in
  for _ = 1 to n do total := !total + f () done;
  !total

let answer bytes = Printf.printf "%d\n%!" bytes

let in_child () =
  match Unix.fork () with
  | 0 ->
    ignore (sum 1_000 kinds);
    Gc.minor ();
    Unix._exit 0
  | child -> (match Unix.waitpid [] child with _, Unix.WEXITED 0 -> true | _ -> false)

(* Repeats everything that could collide with an attach. *)
let rec spin library =
  ignore (Sys.opaque_identity (List.init 2_000 string_of_int));
  Gc.minor ();
  ignore (sum 20 kinds);
  ignore (grow 20);
  ignore (Zip.compress ());
  if library <> "" && load library then begin
    ignore (remember_in_library ());
    unload ()
  end;
  if in_child () then match Handshake.poll_command () with None -> spin library | Some _ -> answer (operations ())
  else print_endline "failed"

let run = function
  | [ "leak"; n; size ] -> answer (sum (int_of_string n) (fun () -> Cache.remember (int_of_string size)))
  | [ "streams"; n ] -> answer (sum (int_of_string n) Zip.compress)
  | [ "keep"; n ] -> answer (sum (int_of_string n) Zip.forget_to_close)
  | [ "grow"; n ] -> answer (resize (int_of_string n))
  | [ "kinds"; n ] -> answer (sum (int_of_string n) kinds)
  | [ "pairs"; n ] -> answer (pairs (int_of_string n))
  | [ "noalloc"; n ] -> answer (sum (int_of_string n) remember_quickly)
  | [ "blocking"; n ] -> answer (sum (int_of_string n) remember_slowly)
  | [ "threads"; n ] -> threads (int_of_string n); answer 0
  | [ "calm" ] -> calm (); answer 0
  | [ "load"; file; n ] when load file -> answer (sum (int_of_string n) remember_in_library)
  | [ "unload" ] -> unload (); answer 0
  | [ "fork" ] when in_child () -> answer 0
  | [ "spin" ] -> spin ""
  | [ "spin"; library ] -> spin library
  | [ "minor" ] -> Gc.minor (); answer 0
  | [ "known"; n ] ->
    Printf.printf "{\"sites\":[%s]}\n%!" (String.concat "," (List.init (Array.length known_sites) (known_at (int_of_string n))))
  | [ "hold"; n; ms ] -> answer (hold (int_of_string n) (int_of_string ms) + 0)
  | [ "unseen"; n; size ] -> answer (free_unseen (int_of_string n) (int_of_string size))
  | [ "paths"; rounds; threads ] -> Path.run (int_of_string rounds) (int_of_string threads)
  | [ "forbid" ] -> forbid (); answer 0
  | _ -> print_endline "failed"

let rec serve () =
  match Handshake.command () with
  | [ "exit" ] -> ()
  | command -> run command; flush stdout; serve ()

let () =
  Handshake.ready ();
  serve ()
