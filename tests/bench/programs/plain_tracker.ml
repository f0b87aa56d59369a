(* SPDX-License-Identifier: Apache-2.0 *)
(* A tracker as users of Gc.Memprof would write it: it writes each event, with its callstack,
   to a file. For comparison with memprofd.

   It runs from the program's "ready" on if PLAIN_TRACKER is "RATE FILE". With "RATE" alone the
   callbacks do nothing and callstacks have one frame, which is the engine alone. The file has
   native 64-bit integers. An allocation is 0, number, microseconds, words, samples, number of
   return addresses, the addresses; a promotion 1, number, microseconds; a death 2, number,
   microseconds. The last integer is the number of allocations in the file. *)

let buffer_bytes = 65_536
let max_frames = 256

type writer = {
  lock : Mutex.t; (* guards all fields: domains and threads share the file *)
  file : Unix.file_descr;
  buffer : Bytes.t;
  mutable used : int;
  mutable allocations : int;
}

let flush w =
  let rec write from =
    if from < w.used then write (from + Unix.write w.file w.buffer from (w.used - from))
  in
  write 0;
  w.used <- 0

let put w n =
  Bytes.set_int64_ne w.buffer w.used (Int64.of_int n);
  w.used <- w.used + 8

let begin_event w entries =
  Mutex.lock w.lock;
  if w.used + (8 * entries) > buffer_bytes then flush w

let microseconds () = int_of_float (Unix.gettimeofday () *. 1e6)

let on_alloc w (info : Gc.Memprof.allocation) =
  let stack = Printexc.raw_backtrace_entries info.callstack in
  begin_event w (6 + Array.length stack);
  let number = w.allocations in
  w.allocations <- number + 1;
  put w 0;
  put w number;
  put w (microseconds ());
  put w info.size;
  put w info.n_samples;
  put w (Array.length stack);
  Array.iter (fun entry -> put w (entry : Printexc.raw_backtrace_entry :> int)) stack;
  Mutex.unlock w.lock;
  Some number

let on_event w kind number =
  begin_event w 3;
  put w kind;
  put w number;
  put w (microseconds ());
  Mutex.unlock w.lock

let finish w () =
  Gc.Memprof.stop ();
  begin_event w 1;
  put w w.allocations;
  flush w;
  Unix.close w.file

let start rate path =
  let file = Unix.openfile path [ Unix.O_WRONLY; Unix.O_CREAT; Unix.O_TRUNC ] 0o600 in
  let w =
    { lock = Mutex.create (); file; buffer = Bytes.create buffer_bytes; used = 0; allocations = 0 }
  in
  let promote number = on_event w 1 number; Some number and dealloc = on_event w 2 in
  at_exit (finish w);
  ignore
    (Gc.Memprof.start ~sampling_rate:rate ~callstack_size:max_frames
       { alloc_minor = on_alloc w; alloc_major = on_alloc w; promote;
         dealloc_minor = dealloc; dealloc_major = dealloc })

let start_engine rate =
  ignore
    (Gc.Memprof.start ~sampling_rate:rate ~callstack_size:1
       { alloc_minor = (fun _ -> Some ()); alloc_major = (fun _ -> Some ());
         promote = (fun () -> Some ()); dealloc_minor = ignore; dealloc_major = ignore })

let () =
  Handshake.before_ready :=
    fun () ->
      match Option.map (String.split_on_char ' ') (Sys.getenv_opt "PLAIN_TRACKER") with
      | Some [ rate; path ] -> start (float_of_string rate) path
      | Some [ rate ] -> start_engine (float_of_string rate)
      | Some _ -> failwith "PLAIN_TRACKER: RATE [FILE]"
      | None -> ()
