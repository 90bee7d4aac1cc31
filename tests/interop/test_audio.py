"""Sounds as plain ZeroMQ clients play them: into a WAV file, nowhere, through a PulseAudio server without a card."""
import array
import base64
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import wave

import pytest

from hwgate_test import WATCHDOG, RpcError, recv_event, wait_for

# The header of a WAV of 16 bits, mono, 22,050 Hz, without a sample.
EMPTY_WAV = bytes.fromhex("524946462400000057415645666d7420100000000100010022560000" "44ac0000020010006461746100000000")
RATE = 44_100


def audio(start, tmp_path, output, env=None, **settings):
    """A gateway with this output and a folder of sounds, which are in `tmp_path / "sounds"`."""
    sounds = tmp_path / "sounds"
    sounds.mkdir(exist_ok=True)
    extra = f'\n[audio]\noutput = "{output}"\n'
    settings = {"gateway": {"audio_dir": sounds}, "extra": extra, "env": env or {}} | settings
    return start(**settings)


def samples(seconds, channels=2, rate=RATE, pitch=440, peak=8000):
    """A tone on all channels."""
    frames = (int(peak * math.sin(2 * math.pi * pitch * i / rate)) for i in range(round(seconds * rate)))
    return array.array("h", [sample for sample in frames for _ in range(channels)])


def write_wav(path, data, channels=2, rate=RATE):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes(data.tobytes())
    return path


def read_wav(path):
    with wave.open(str(path), "rb") as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (2, 2, RATE)
        return array.array("h", file.readframes(file.getnframes()))


def play(g, file=None, seconds=30.0, **more):
    if file is not None:
        more["file"] = file
    return g.request("audio.play", **more)


def wait_end(sub, play, seconds=WATCHDOG):
    """The terminal event of a play, others passed over."""
    end = time.monotonic() + seconds
    while True:
        event = recv_event(sub, max(0.1, end - time.monotonic()))
        assert event.topic == "audio/state/" and event.payload.decode() == event.header["state"], event
        if event.header["play"] == play and event.header["state"] != "started":
            return event.header


def test_what_is_heard_is_what_was_in_the_file(gateway, tmp_path):
    heard = tmp_path / "heard.wav"
    g = audio(gateway, tmp_path, f"wav:{heard}")
    wait_for("the file of this run", heard.exists)
    source = array.array("h", os.urandom(RATE))  # 0.25 s, every value
    write_wav(tmp_path / "sounds/door/open.wav", source)
    sub = g.subscribe("audio/state/")
    answer = play(g, "door/open.wav")
    assert answer == {"play": 1, "file": "door/open.wav", "duration_ms": 250}
    started = recv_event(sub).header
    assert (started["play"], started["state"], started["file"]) == (1, "started", "door/open.wav")
    end = wait_end(sub, 1)
    assert (end["state"], end["file"]) == ("finished", "door/open.wav") and "reason" not in end
    assert read_wav(heard) == source
    # The same bytes over the wire, half as loud: rounded, and behind what is there.
    content = (tmp_path / "sounds/door/open.wav").read_bytes()
    answer = g.request("audio.play", data_base64=base64.b64encode(content).decode(), volume=0.5)
    assert answer == {"play": 2, "file": None, "duration_ms": 250}
    end = wait_end(sub, 2)
    assert end["state"] == "finished" and "file" not in end
    both = read_wav(heard)
    assert both[: len(source)] == source and len(both) == 2 * len(source)
    assert all(abs(a * 2 - b) <= 1 for a, b in zip(both[len(source):], source))
    listed = g.request("audio.list")
    assert listed["files"] == [{"file": "door/open.wav", "bytes": len(content)}] and not listed["more"]
    assert listed["audio_dir"] == str(tmp_path / "sounds") and isinstance(listed["outputs"], list)
    status = g.request("audio.status")
    assert status == {"state": "open", "output": f"wav:{heard}", "volume": 1, "playing": [], "rate": RATE, "channels": 2}
    devices = g.request("device.list")["devices"]
    assert {"id": "audio", "kind": "audio", "state": "open"} in devices
    # A stop in the middle of a sound leaves a whole file.
    write_wav(tmp_path / "sounds/long.wav", samples(60))
    play(g, "long.wav")
    wait_for("a second of it", lambda: len(read_wav(heard)) > len(both) + RATE)
    g.stop()
    assert 0 < len(read_wav(heard)) - len(both) < 60 * 2 * RATE
    # And the next start begins a new one.
    g.start()
    wait_for("an empty file", lambda: heard.exists() and len(read_wav(heard)) == 0)


def test_volume_is_checked_set_and_told(gateway, tmp_path):
    g = audio(gateway, tmp_path, "null")
    write_wav(tmp_path / "sounds/long.wav", samples(60))
    assert g.request("audio.volume") == {"volume": 1}
    assert g.request("audio.volume", volume=0.3) == {"volume": 0.3}
    id = play(g, "long.wav", volume=1.5)["play"]
    assert g.request("audio.volume", play=id) == {"volume": 1.5}
    assert g.request("audio.volume", play=id, volume=0) == {"volume": 0}
    moved = wait_for("its position", lambda: g.request("audio.status")["playing"][0]["position_ms"] > 100)
    assert moved
    status = g.request("audio.status")
    playing = status["playing"][0]
    assert (status["volume"], playing["play"], playing["volume"], playing["duration_ms"]) == (0.3, id, 0, 60_000)
    for bad in (-0.1, 2.1):
        for method, more in (("audio.volume", {}), ("audio.play", {"file": "long.wav"})):
            with pytest.raises(RpcError) as error:
                g.request(method, volume=bad, **more)
            assert error.value.kind == "INVALID_ARGUMENT" and "0.0 to 2.0" in error.value.message
    for params in ({}, {"file": "a", "data_base64": ""}, {"data_base64": "?"}):
        with pytest.raises(RpcError) as error:
            g.request("audio.play", **params)
        assert error.value.kind == "INVALID_ARGUMENT", params
    assert g.request("audio.stop", play=id) == {"stopped": 1}
    with pytest.raises(RpcError) as error:
        g.request("audio.volume", play=id)
    assert error.value.kind == "NOT_FOUND" and "ended" in error.value.message


def test_the_volume_of_the_settings_is_that_of_the_start(gateway, tmp_path):
    heard = tmp_path / "heard.wav"
    g = audio(gateway, tmp_path, "null", extra=f'\n[audio]\noutput = "wav:{heard}"\nvolume = 25\n')
    assert g.request("audio.volume") == {"volume": 0.25}
    write_wav(tmp_path / "sounds/a.wav", array.array("h", [8000] * 2000))
    sub = g.subscribe("audio/state/")
    assert wait_end(sub, play(g, "a.wav")["play"])["state"] == "finished"
    assert read_wav(heard) == array.array("h", [2000] * 2000)


def test_off_and_not_built_in_are_not_enabled(gateway, tmp_path):
    g = audio(gateway, tmp_path, "off")
    write_wav(tmp_path / "sounds/a.wav", samples(0.1))
    with pytest.raises(RpcError) as error:
        play(g, "a.wav")
    assert error.value.kind == "NOT_ENABLED" and "output" in error.value.message
    assert g.request("audio.status")["state"] == "closed"
    assert g.request("audio.stop") == {"stopped": 0}
    if "sound" not in g.request("hello")["features"]:
        g = audio(gateway, tmp_path, "device")
        with pytest.raises(RpcError) as error:
            play(g, "a.wav")
        assert error.value.kind == "NOT_ENABLED" and "sound card" in error.value.message


def test_c22_odd_files(gateway, tmp_path):
    g = audio(gateway, tmp_path, "null")
    sounds = tmp_path / "sounds"
    (sounds / "a.wav").write_bytes(b"")
    (sounds / "b.wav").write_bytes(EMPTY_WAV)
    (sounds / "c.wav").write_bytes(EMPTY_WAV[:-4] + bytes.fromhex("a0860100"))
    (sounds / "d.mp3").write_text("This is text, and no sound.\n" * 1000)
    (sounds / "f.wav").mkdir()
    os.mkfifo(sounds / "g.wav")
    write_wav(sounds / "h.wav", samples(0.2))
    sub = g.subscribe("audio/state/")
    for name, kind, says in [
        ("a.wav", "UNSUPPORTED_FORMAT", "0 bytes"),
        ("c.wav", "UNSUPPORTED_FORMAT", "truncated"),
        ("d.mp3", "UNSUPPORTED_FORMAT", "d.mp3"),
        ("e.wav", "NOT_FOUND", "e.wav"),
        ("f.wav", "INVALID_ARGUMENT", "folder"),
        ("g.wav", "INVALID_ARGUMENT", "pipe"),
    ]:
        start = time.monotonic()
        with pytest.raises(RpcError) as error:
            play(g, name)
        assert error.value.kind == kind and says in error.value.message, error.value
        # A second is promised; ten are the watchdog.
        assert time.monotonic() - start < 10, name
        assert g.request("ping")
    assert play(g, "b.wav") == {"play": 1, "file": "b.wav", "duration_ms": 0}
    assert wait_end(sub, 1)["state"] == "finished"
    assert play(g, "h.wav") == {"play": 2, "file": "h.wav", "duration_ms": 200}
    assert wait_end(sub, 2)["state"] == "finished"
    with pytest.raises(RpcError) as error:
        g.request("audio.play", data_base64=base64.b64encode(os.urandom(100_000)).decode())
    assert error.value.kind == "UNSUPPORTED_FORMAT", error.value
    assert "panicked" not in g.stderr()


def test_c35_nothing_outside_the_folder(gateway, tmp_path):
    g = audio(gateway, tmp_path, "null")
    outside = write_wav(tmp_path / "outside.wav", samples(0.1))
    (tmp_path / "sounds/link.wav").symlink_to(outside)
    (tmp_path / "sounds/up").symlink_to(tmp_path)
    (tmp_path / "sounds/zero.wav").symlink_to("/dev/zero")
    for name in ["../outside.wav", "x/../../outside.wav", "..\\outside.wav", str(outside), "/etc/passwd", "C:\\x", "C:x",
                 "\\\\host\\s\\a.wav", "//host/s/a.wav", f"file://{outside}", "NUL", "COM3.log", "a.log:b", "a\u0000.wav",
                 "con ", "x" * 300, "link.wav", "up/outside.wav", "zero.wav", "", ".", "..", "/"]:
        with pytest.raises(RpcError) as error:
            play(g, name)
        assert error.value.kind in ("INVALID_ARGUMENT", "PERMISSION"), (name, error.value)
    with pytest.raises(RpcError) as error:
        play(g, str(outside))
    assert error.value.message.startswith(f"audio.play: {outside} is outside audio_dir {tmp_path / 'sounds'}; copy it there")
    assert g.request("audio.list")["files"] == []
    assert sorted(path.name for path in (tmp_path / "sounds").iterdir()) == ["link.wav", "up", "zero.wav"]


def test_c48_sounds_overlap_and_stop_by_their_ids(gateway, tmp_path):
    g = audio(gateway, tmp_path, "null")
    write_wav(tmp_path / "sounds/a.wav", samples(20))
    write_wav(tmp_path / "sounds/b.wav", samples(0.5))
    sub = g.subscribe("audio/state/")
    a = play(g, "a.wav")["play"]
    b = play(g, "b.wav")["play"]
    assert {one["play"] for one in g.request("audio.status")["playing"]} <= {a, b} and a != b
    begin = time.monotonic()
    assert wait_end(sub, b)["state"] == "finished"
    assert time.monotonic() - begin > 0.3, "it ended before it can have been heard"
    assert [one["play"] for one in g.request("audio.status")["playing"]] == [a]
    assert g.request("audio.stop", play=a) == {"stopped": 1}
    assert wait_end(sub, a)["state"] == "stopped"
    assert g.request("audio.stop", play=a) == {"stopped": 0}
    for unknown in (0, 99):
        with pytest.raises(RpcError) as error:
            g.request("audio.stop", play=unknown)
        assert error.value.kind == "NOT_FOUND"
    c = play(g, "b.wav")["play"]
    assert wait_end(sub, c)["state"] == "finished" and (a, b, c) == (1, 2, 3)
    play(g, "a.wav"), play(g, "a.wav")
    assert g.request("audio.stop") == {"stopped": 2}


def test_a_slow_disk_and_many_plays_hold_up_nobody(gateway, tmp_path):
    g = audio(gateway, tmp_path, "null")
    write_wav(tmp_path / "sounds/long.wav", samples(30))
    started = [play(g, "long.wav")["play"] for _ in range(64)]
    assert started == list(range(1, 65))
    with pytest.raises(RpcError) as error:
        play(g, "long.wav")
    assert error.value.kind == "BUSY" and "64" in error.value.message
    assert len(g.request("audio.status")["playing"]) == 64
    assert g.request("audio.stop") == {"stopped": 64}


def needs_sound(g):
    if "sound" not in g.request("hello")["features"]:
        pytest.skip("this hwgate is built without --features sound")


def test_c21_no_sound_card(gateway, tmp_path):
    empty = tmp_path / "no-cards.conf"
    empty.write_text("")
    diagnostics = tmp_path / "diagnostics.log"
    env = {"ALSA_CONFIG_PATH": str(empty), "PULSE_SERVER": f"unix:{tmp_path}/none"}
    g = audio(gateway, tmp_path, "device", env=env,
              gateway={"audio_dir": tmp_path / "sounds", "diagnostics": str(diagnostics)})
    needs_sound(g)
    write_wav(tmp_path / "sounds/ok.wav", samples(0.2))
    assert g.request("audio.status")["state"] == "closed"
    for _ in range(3):
        start = time.monotonic()
        with pytest.raises(RpcError) as error:
            play(g, "ok.wav")
        assert error.value.kind == "NO_DEVICE" and "sound card" in error.value.message, error.value
        # Two seconds are promised; twenty are the watchdog.
        assert time.monotonic() - start < 20
        status = g.request("audio.status")
        assert (status["state"], status["playing"]) == ("failed", []) and status["reason"], status
        assert g.request("ping")
    # A file that is no sound is that, card or not.
    with pytest.raises(RpcError) as error:
        play(g, "none.wav")
    assert error.value.kind == "NOT_FOUND"
    assert isinstance(g.request("audio.list")["outputs"], list)
    g.send("still here")
    g.settle(1)
    assert g.texts() == ["still here"]
    assert "ALSA" not in g.log_text()
    for line in diagnostics.read_text().splitlines():
        assert not line.startswith("ALSA"), line
    assert "sound card" in diagnostics.read_text()
    assert "panicked" not in g.stderr()
    g.stop()


class Pulse:
    """A PulseAudio server of its own, with a sink that plays nothing and can be recorded."""

    def __init__(self, folder):
        for tool in ("pulseaudio", "parec"):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed: apt-get install pulseaudio pulseaudio-utils libasound2-plugins")
        self.folder = pathlib.Path(folder)
        self.socket = self.folder / "ps.sock"
        self.config = self.folder / "asound.conf"
        self.config.write_text("</usr/share/alsa/alsa.conf>\npcm.!default { type pulse }\nctl.!default { type pulse }\n")
        self.env = {"PULSE_SERVER": f"unix:{self.socket}", "ALSA_CONFIG_PATH": str(self.config),
                    "HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)}
        self.raw = self.folder / "monitor.raw"
        self.processes = []
        self.start()

    def run(self, command, out=subprocess.DEVNULL):
        with open(self.folder / "pulse.txt", "ab") as log:
            self.processes.append(subprocess.Popen(command, env=os.environ | self.env, stdin=subprocess.DEVNULL,
                                                   stdout=out, stderr=log))
        return self.processes[-1]

    def start(self):
        self.server = self.run([
            "pulseaudio", "-n", "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1",
            "-L", "module-null-sink sink_name=null rate=48000",
            "-L", f"module-native-protocol-unix socket={self.socket} auth-anonymous=1"])
        wait_for("the PulseAudio server", self.answers)

    def answers(self):
        assert self.server.poll() is None, (self.folder / "pulse.txt").read_text()
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.socket)) == 0

    def kill(self):
        self.server.kill()
        self.server.wait()

    def record(self):
        with open(self.raw, "wb") as out:
            self.run(["parec", "-d", "null.monitor", "--format=s16le", f"--rate={RATE}", "--channels=1", "--latency-msec=20"], out)
        wait_for("the recording", lambda: self.raw.stat().st_size > 0)

    def recorded(self):
        data = self.raw.read_bytes()
        return array.array("h", data[: len(data) // 2 * 2])

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def pulse(short_folder):
    pulse = Pulse(short_folder)
    yield pulse
    pulse.close()


def tone(recorded):
    """Length in seconds and pitch in Hz of the one tone in a recording; none while it has not ended."""
    loud = [i for i, sample in enumerate(recorded) if abs(sample) > 2000]
    if not loud or len(recorded) - loud[-1] < RATE // 2:
        return None
    part = recorded[loud[0]: loud[-1] + 1]
    rising = sum(1 for a, b in zip(part, part[1:]) if a < 0 <= b)
    return len(part) / RATE, rising * RATE / len(part)


def test_a_tone_through_the_sound_system_has_its_length_and_pitch(gateway, tmp_path, pulse):
    g = audio(gateway, tmp_path, "device", env=pulse.env)
    needs_sound(g)
    write_wav(tmp_path / "sounds/tone.wav", samples(1.0, channels=1, pitch=1000), channels=1)
    sub = g.subscribe("audio/state/")
    pulse.record()
    answer = play(g, "tone.wav")
    assert answer["duration_ms"] == 1000
    begin = time.monotonic()
    assert wait_end(sub, answer["play"])["state"] == "finished"
    assert time.monotonic() - begin > 0.5
    length, pitch = wait_for("the tone and silence after it", lambda: tone(pulse.recorded()), step=0.2)
    assert abs(length - 1.0) < 0.05, length
    assert abs(pitch - 1000) < 10, pitch
    status = g.request("audio.status")
    assert status["state"] == "open" and status["rate"] >= 8000, status
    outputs = g.request("audio.list")["outputs"]
    assert any(output["default"] for output in outputs), outputs
    g.stop()


def test_a_sound_system_that_goes_away_fails_the_plays_and_the_next_play_opens_it_again(gateway, tmp_path, pulse):
    g = audio(gateway, tmp_path, "device", env=pulse.env)
    needs_sound(g)
    write_wav(tmp_path / "sounds/long.wav", samples(60))
    write_wav(tmp_path / "sounds/short.wav", samples(0.3))
    sub = g.subscribe("audio/state/")
    id = play(g, "long.wav")["play"]
    wait_for("sound", lambda: g.request("audio.status")["playing"][0]["position_ms"] > 200)
    pulse.kill()
    end = wait_end(sub, id)
    assert end["state"] == "failed" and end["reason"], end
    assert g.request("audio.status")["state"] == "failed"
    with pytest.raises(RpcError) as error:
        play(g, "short.wav")
    assert error.value.kind == "NO_DEVICE", error.value
    pulse.socket.unlink(missing_ok=True)
    pulse.start()
    id = play(g, "short.wav")["play"]
    assert wait_end(sub, id)["state"] == "finished"
    assert "panicked" not in g.stderr()
    g.stop()


def test_a_sound_system_that_hangs_holds_up_nobody(gateway, tmp_path, pulse):
    g = audio(gateway, tmp_path, "device", env=pulse.env)
    needs_sound(g)
    write_wav(tmp_path / "sounds/long.wav", samples(120))
    write_wav(tmp_path / "sounds/short.wav", samples(0.3))
    sub = g.subscribe("audio/state/")
    id = play(g, "long.wav")["play"]
    wait_for("sound", lambda: g.request("audio.status")["playing"][0]["position_ms"] > 200)
    pulse.server.send_signal(signal.SIGSTOP)
    # Nothing tells that it hangs, but that it takes no sound any more.
    end = wait_end(sub, id)
    assert end["state"] == "failed" and "took no sound" in end["reason"], end
    for _ in range(2):
        start = time.monotonic()
        with pytest.raises(RpcError) as error:
            play(g, "short.wav")
        assert error.value.kind == "NO_DEVICE" and "next play" in error.value.message, error.value
        # Two seconds are promised; twenty are the watchdog.
        assert time.monotonic() - start < 20
        assert g.request("ping") and g.request("audio.status")["playing"] == []
    pulse.server.send_signal(signal.SIGCONT)

    def plays_again():
        try:
            return play(g, "short.wav")["play"]
        except RpcError as error:
            assert error.kind == "NO_DEVICE", error
            return None

    assert wait_end(sub, wait_for("a play that starts", plays_again))["state"] == "finished"
    pulse.server.send_signal(signal.SIGSTOP)
    took = g.stop()
    assert took < 50, took
    pulse.server.send_signal(signal.SIGCONT)
