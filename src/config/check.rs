//! What no single value can tell: whether the settings fit each other.

use super::load::{Origin, Origins};
use super::serial::PortPath;
use super::{Config, value::show_size};
use crate::wire::Endpoint;

/// Adds what is wrong to `problems`, and what is allowed but unwise to `warnings`.
pub(super) fn check(
    config: &Config,
    origins: &Origins,
    problems: &mut Vec<(Origin, String)>,
    warnings: &mut Vec<String>,
) {
    let mut problem = |key: &str, text: String| {
        // A conflict is between two values, one of which was set; this one may be a default.
        let whole = key.rsplit_once('.').and_then(|(table, _)| origins.get(table));
        problems.push((origins.get(key).or(whole).cloned().unwrap_or(Origin::Default), text));
    };

    let own = [
        ("commands", &config.endpoints.commands),
        ("logs", &config.endpoints.logs),
        ("events", &config.endpoints.events),
    ];
    let own = own.into_iter().filter_map(|(name, text)| {
        Some((format!("endpoints.{name}"), format!("[endpoints] {name}"), text.as_ref()?))
    });
    let forward = config.forward.iter().enumerate().flat_map(|(index, forward)| {
        forward.endpoints().map(move |(name, text)| {
            (format!("forward.{index}.{name}"), format!("[[forward]] {:?} {name}", forward.id), text)
        })
    });
    let mut seen: Vec<(String, Endpoint)> = Vec::new();
    for (key, name, text) in own.chain(forward) {
        // Each was checked by itself when it was read; a relative ipc path has grown since.
        let endpoint = match Endpoint::bind(text) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                problem(&key, format!("{name}: {}", error.message()));
                continue;
            }
        };
        if !endpoint.is_local() && config.security.allow_insecure {
            warnings.push(format!(
                "{name} = {text:?}: anyone who reaches this machine can use the gateway, \
                 since [security] allow_insecure = true"
            ));
        } else if !endpoint.is_local() {
            problem(
                &key,
                format!(
                    "{name} = {text:?} listens beyond this machine without keys; listen on 127.0.0.1, \
                     or, where everyone on the network may use the gateway, set [security] allow_insecure = true"
                ),
            );
        }
        let any_port = matches!(endpoint, Endpoint::Tcp { port: 0, .. });
        match seen.iter().find(|(_, other)| other.to_bind() == endpoint.to_bind()) {
            Some((other, _)) if !any_port => {
                problem(&key, format!("{name} = {text:?} is the same as {other}; each needs its own"));
            }
            _ => seen.push((name, endpoint)),
        }
    }

    if config.intake.max_text > config.intake.max_message {
        let show = |size: usize| show_size(size as u64);
        let key = if origins.contains_key("intake.max_text") { "max_text" } else { "max_message" };
        let text = format!(
            "[intake] max_text is {}, but max_message is {}; the second must not be less",
            show(config.intake.max_text),
            show(config.intake.max_message)
        );
        problem(&format!("intake.{key}"), text);
    }

    for (index, port) in config.serial.iter().enumerate() {
        if let Err(text) = port.line.check_rate() {
            problem(&format!("serial.{index}.baud"), format!("[[serial]] {text}"));
        }
        // Ids that differ in case only would be one name to some clients and file systems.
        let others = &config.serial[..index];
        if others.iter().any(|other| other.id.eq_ignore_ascii_case(&port.id)) {
            let text = format!("[[serial]] id = {:?} is used twice, in whatever case", port.id);
            problem(&format!("serial.{index}.id"), text);
        }
        let key = match port.port {
            // Each is a simulation of its own.
            PortPath::SimLoop => continue,
            PortPath::Path(_) => "path",
            PortPath::Usb { .. } => "usb",
        };
        if let Some(other) = others.iter().find(|other| port.port.same(&other.port)) {
            let text =
                format!("[[serial]] {key}: {} is {:?} already; a port is opened once", port.port, other.id);
            problem(&format!("serial.{index}.{key}"), text);
        }
    }

    for (index, forward) in config.forward.iter().enumerate() {
        let others = &config.forward[..index];
        if others.iter().any(|other| other.id.eq_ignore_ascii_case(&forward.id)) {
            let text =
                format!("[[forward]] id = {:?} is used twice, in whatever case; name each", forward.id);
            problem(&format!("forward.{index}.id"), text);
        }
    }

    // Some file systems take both cases for one, and the sinks refuse it.
    let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
    for (index, log) in config.logs.iter().enumerate() {
        let key = format!("log.{index}.path");
        if config.logs[..index].iter().any(|other| same(&other.path, &log.path)) {
            problem(
                &key,
                format!(
                    "[[log]] path = {:?} is used twice, in whatever case; each needs a file of its own",
                    log.path
                ),
            );
        }
        if let Some(rotate) = &log.rotate {
            let changes = rotate.size.is_some() || rotate.every.is_some() || log.path.contains("{date}");
            if !changes {
                let text = "[[log]] rotate: needs size or every, else no file is ever closed";
                problem(&key, text.to_owned());
            }
        }
    }
}
