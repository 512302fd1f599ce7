//! The edits that hints propose. A hint is told by its mark, and each kind of edit is one entry of
//! [`KINDS`].

use diana_document::Error;
use serde_json::{Map, Value, json};

/// A hint of a mistake in a document.
pub struct Hint<'a> {
    document: &'a Value,
    why: &'a str,
    /// The steps to the place of the mistake.
    path: Vec<String>,
    key: Option<&'a str>,
    /// The words in backticks behind the mark.
    words: Vec<&'a str>,
}

/// The marks of hints that propose the same kind of edit, and the documents that it leads to: one
/// for each alternative.
struct Kind {
    marks: &'static [&'static str],
    apply: fn(&Hint) -> Vec<Value>,
}

/// The documents that the hints of a mistake lead to.
pub fn apply(document: &Value, error: &Error) -> Vec<Value> {
    let mut applied = Vec::new();
    for kind in KINDS {
        let mut rests = kind.marks.iter().filter_map(|mark| {
            let (_, rest) = error.why.split_once(mark)?;
            Some((rest, mark.matches('`').count() % 2))
        });
        if let Some((rest, inside)) = rests.next() {
            let words = rest.split('`').skip(1 - inside).step_by(2).collect();
            let key = error.key.as_deref();
            let path = steps(&error.path);
            applied.extend((kind.apply)(&Hint { document, why: &error.why, path, key, words }));
        }
    }
    applied
}

/// Whether a message proposes an edit: its own words contain an imperative.
pub fn proposes(why: &str) -> bool {
    const IMPERATIVES: [&str; 15] = [
        "did you mean ",
        "write ",
        "leave ",
        ": use ",
        "give ",
        "define ",
        "put ",
        "raise ",
        "lower ",
        "add ",
        "choose ",
        "or name a",
        "say how ",
        ": count ",
        "follow ",
    ];
    let ours: String = why.split('`').step_by(2).collect();
    IMPERATIVES.iter().any(|verb| ours.contains(verb))
}

const KINDS: &[Kind] = &[
    Kind { marks: &["did you mean "], apply: |hint| vec![hint.respelt()] },
    Kind {
        marks: &["put it in quotes"],
        apply: |hint| vec![hint.replaced(|value| json!(value.to_string()))],
    },
    Kind {
        marks: &["leave out its quotes"],
        apply: |hint| vec![hint.replaced(|value| serde_json::from_str(value.as_str().unwrap()).unwrap())],
    },
    Kind {
        marks: &[": leave it out", "leave this out", ": leave that to "],
        apply: |hint| vec![hint.without_it()],
    },
    Kind {
        marks: &["leave the key out, or write a rule of its own"],
        apply: |hint| {
            let time_base = ["rpu", "unit", "start", "slices", "max_hold", "warm_up"];
            let without = hint.edited(|document| remove_keys(at(document, &hint.path), &time_base));
            vec![without, hint.without_it()]
        },
    },
    Kind { marks: &["leave one of them out"], apply: |hint| hint.without_each(&hint.all_words()[..2]) },
    Kind {
        marks: &["leave out either "],
        apply: |hint| vec![hint.without(&["adapt"]), hint.without(&["charge", "refund", "cost"])],
    },
    Kind { marks: &["leave `lease` or ", "leave `warm_up` or "], apply: |hint| hint.without_either() },
    Kind { marks: &["leave `actor` out"], apply: |hint| vec![hint.without(&["actor"])] },
    Kind {
        marks: &[
            "leave out `inspect`",
            "leave `body_size` out",
            "leave `headers` out",
            "leave `hosts` out",
            "leave `ip` out",
            "leave `jwt` out",
            "leave `methods` out",
            "leave `property` out",
            "leave `query` out",
            "leave `adapt` out",
            "leave `borrow` out",
            "leave `dialect` out",
            "leave `header` out",
            "leave `headroom` out",
            "leave `lease` out",
            "leave `missing` out",
            "leave `overrides` out",
            "leave `penalty` out",
            "leave `plans` out",
            "leave `response` out",
            "leave `scope` out",
        ],
        apply: |hint| {
            let (_, rest) = hint.why.split_once("leave ").unwrap();
            vec![hint.without(&[rest.split('`').nth(1).unwrap()])]
        },
    },
    Kind {
        marks: &["leave `max_wait` and `warm_up` out"],
        apply: |hint| vec![hint.without(&["max_wait", "warm_up"])],
    },
    Kind {
        marks: &["put it into the list"],
        apply: |hint| {
            vec![hint.edited(|document| {
                let redis = at(document, &hint.path[..2]);
                let cluster = redis.as_object_mut().unwrap().remove("cluster").unwrap();
                redis["clusters"].as_array_mut().unwrap().push(cluster);
            })]
        },
    },
    Kind { marks: &["write `algo: "], apply: |hint| hint.with_each_algo(&["TB", "W", "SW"]) },
    Kind { marks: &["`SL` or `C`"], apply: |hint| hint.with_each_algo(&["SL", "C"]) },
    Kind { marks: &["or write one of these"], apply: |hint| hint.with_each_algo(&["C", "TB"]) },
    Kind { marks: &["write another `algo`"], apply: |hint| hint.with_each_algo(&["TB", "W", "SW"]) },
    Kind { marks: &["use SW, or TB"], apply: |hint| hint.with_each_algo(&["SW", "TB"]) },
    Kind {
        marks: &["write `present: true`"],
        apply: |hint| {
            vec![hint.edited(|document| {
                *at(document, hint.parent()) = json!({"present": true});
            })]
        },
    },
    Kind {
        marks: &["write `admit: true`"],
        apply: |hint| vec![hint.edited(|document| at(document, hint.parent())["admit"] = json!(true))],
    },
    Kind {
        marks: &["it is now "],
        apply: |hint| {
            let now = |key: &str, value: Value| {
                hint.edited(|document| {
                    let object = at(document, &hint.path).as_object_mut().unwrap();
                    object.remove(hint.key.unwrap());
                    object.insert(key.into(), value);
                })
            };
            match hint.words[0] {
                "priority" => vec![now("priority", json!("high"))],
                "estimate" => vec![now("estimate", json!(500))],
                "headroom" => vec![
                    now("headroom", json!("30%")),
                    hint.edited(|document| {
                        at(document, &hint.path).as_object_mut().unwrap().remove("priority");
                        at(document, &hint.path[..hint.path.len() - 2])["priority"] = json!("high");
                    }),
                ],
                key => panic!("{key}"),
            }
        },
    },
    Kind {
        marks: &["write `cost: "],
        apply: |hint| vec![hint.edited(|document| hint.rule(document)["cost"] = json!(hint.words[0]))],
    },
    Kind {
        marks: &["write `secret` beside it"],
        apply: |hint| vec![hint.edited(|document| at(document, hint.parent())["secret"] = json!(SECRET))],
    },
    Kind {
        marks: &["write the zone of its present offset"],
        apply: |hint| vec![hint.replaced(|_| json!("Etc/GMT-2"))],
    },
    Kind {
        marks: &["write `unit: month`"],
        apply: |hint| vec![hint.edited(|document| hint.rule(document)["unit"] = json!("month"))],
    },
    Kind { marks: &["write the secret itself"], apply: |hint| vec![hint.replaced(|_| json!(SECRET))] },
    Kind {
        marks: &["write `store: ", "write the full form with `limits` and `store`"],
        apply: |hint| vec![hint.full(|document| document["store"] = store())],
    },
    Kind { marks: &["write `{redis: "], apply: |hint| vec![hint.replaced(|_| store())] },
    Kind {
        marks: &["count in `redis`"],
        apply: |hint| {
            vec![
                hint.edited(|document| document["store"] = store()),
                // Rules that the service counts go as well.
                hint.edited(|document| {
                    document.as_object_mut().unwrap().remove("store");
                    document["limits"].as_array_mut().unwrap().clear();
                }),
            ]
        },
    },
    Kind {
        marks: &["write `scope: local`"],
        apply: |hint| vec![hint.edited(|document| hint.rule(document)["scope"] = json!("local"))],
    },
    Kind {
        marks: &["write `x-forwarded-for`"],
        apply: |hint| vec![hint.replaced(|_| json!("x-forwarded-for"))],
    },
    Kind {
        marks: &["say how many of its entries"],
        apply: |hint| vec![hint.edited(|document| at(document, hint.parent())["trusted_hops"] = json!(1))],
    },
    Kind {
        marks: &["write only what is in `value`"],
        apply: |hint| {
            vec![match &hint.document["value"] {
                Value::String(text) => serde_json::from_str(text).unwrap(),
                value => value.clone(),
            }]
        },
    },
    Kind {
        marks: &["a server, write JSON"],
        apply: |hint| vec![serde_norway::from_str(hint.document.as_str().unwrap()).unwrap()],
    },
    Kind {
        marks: &["or define it in `actors`"],
        apply: |hint| {
            vec![hint.full(|document| {
                define(document, hint.all_words()[0], json!({"header": "x-key"}));
            })]
        },
    },
    Kind { marks: &["define another name, such as "], apply: |hint| vec![hint.redefined("net")] },
    Kind { marks: &["define `user`"], apply: |hint| vec![hint.redefined("user")] },
    Kind {
        marks: &["raise `min`, or lower `cost`"],
        apply: |hint| {
            vec![
                hint.edited(|document| {
                    let most = hint.rule(document)["adapt"].get("max").cloned().unwrap_or(json!(1_000_000));
                    hint.rule(document)["adapt"]["min"] = most.clone();
                    hint.rule(document)["rpu"] = most.clone();
                    hint.rule(document)["adapt"]["max"] = most;
                }),
                hint.edited(|document| hint.rule(document)["cost"] = json!(1)),
            ]
        },
    },
    Kind {
        marks: &["raise `every`, or lower `target`"],
        apply: |hint| {
            vec![
                hint.edited(|document| hint.rule(document)["adapt"]["every"] = json!("2s")),
                hint.edited(|document| hint.rule(document)["adapt"]["target"] = json!("1s")),
            ]
        },
    },
    Kind {
        marks: &["lower `borrow`"],
        apply: |hint| vec![hint.edited(|document| hint.rule(document)["borrow"] = json!(1))],
    },
    Kind {
        marks: &["give a `max_wait`"],
        apply: |hint| vec![hint.edited(|document| at(document, &hint.path)["max_wait"] = json!("1h"))],
    },
    Kind {
        marks: &["follow a latency or `errors`"],
        apply: |hint| {
            [("latency_p90", "1s"), ("errors", "5%")]
                .map(|(signal, target)| {
                    hint.edited(|document| {
                        let adapt = &mut hint.rule(document)["adapt"];
                        (adapt["signal"], adapt["target"]) = (json!(signal), json!(target));
                    })
                })
                .into()
        },
    },
    Kind {
        marks: &["give these actors a rule of their own"],
        apply: |hint| {
            vec![hint.edited(|document| {
        let rule = hint.rule(document).as_object_mut().unwrap();
        let overrides = rule.remove("overrides").unwrap();
        let unit = rule["unit"].clone();
        for (value, quota) in overrides.as_object().unwrap() {
            let own = json!({"url": "/api", "headers": {"x-user-id": value}, "rules": [{"actor": "user", "rpu": quota["rpu"], "unit": unit}]});
            document["limits"].as_array_mut().unwrap().push(own);
        }
    })]
        },
    },
    Kind {
        marks: &["give it `enforce: "],
        apply: |hint| {
            vec![hint.edited(|document| {
        document["remote"].as_object_mut().unwrap().remove("canary");
        document["limits"] = json!([{"url": "/", "rules": [{"rpu": 1, "unit": "day", "actor": "user", "enforce": "5%"}]}]);
    })]
        },
    },
    Kind {
        marks: &["name another `actor`"],
        apply: |hint| vec![hint.edited(|document| hint.rule(document)["actor"] = json!("user"))],
    },
    Kind {
        marks: &["choose another name", "give it another"],
        apply: |hint| vec![hint.replaced(|_| json!("another"))],
    },
    Kind {
        marks: &["name an actor's value as in "],
        apply: |hint| vec![hint.replaced(|_| json!({"vip-42": {"rpu": 100}}))],
    },
    Kind {
        marks: &["name a plan as in "],
        apply: |hint| vec![hint.replaced(|_| json!({"gold": {"rpu": 1000}}))],
    },
    Kind {
        marks: &["write, for example, `plan: {header: x-plan}`"],
        apply: |hint| vec![hint.full(|document| document["plan"] = json!({"header": "x-plan"}))],
    },
    Kind { marks: &["add `store` to the local document"], apply: |hint| vec![hint.document.clone()] },
    // Urls.
    Kind {
        marks: &["a pattern, leave it out: "],
        apply: |hint| vec![hint.replaced(|_| json!(hint.words[0]))],
    },
    Kind {
        marks: &["not a full url: write "],
        apply: |hint| {
            vec![hint.edited(|document| {
                let limit = at(document, hint.parent());
                let url = limit["url"].as_str().unwrap();
                let (_, rest) = url.split_once("://").unwrap();
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                let (host, _) = host.split_once(':').unwrap_or((host, ""));
                let equals = if url.starts_with('=') { "=" } else { "" };
                (limit["url"], limit["hosts"]) = (json!(format!("{equals}/{path}")), json!(host));
            })]
        },
    },
    Kind {
        marks: &["names a segment in other routers"],
        apply: |hint| {
            let word = hint.all_words()[0];
            let is_name =
                word[1..].chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
            let name = if is_name { &word[1..] } else { "name" };
            let written = [format!("{{{name}}}"), "*".into(), word.replacen(':', "%3A", 1)];
            let replace =
                |by: &String| hint.replaced(|url| json!(url.as_str().unwrap().replacen(word, by, 1)));
            written.iter().map(replace).collect()
        },
    },
    Kind { marks: &["no url is listed: write "], apply: |hint| vec![hint.replaced(|_| json!("/"))] },
    Kind {
        marks: &["write the path it leads to"],
        apply: |hint| vec![hint.replaced(|url| json!(resolved(url.as_str().unwrap())))],
    },
    Kind {
        marks: &["leave out one of them in "],
        apply: |hint| {
            vec![
                hint.replaced(|url| json!(url.as_str().unwrap().replacen('=', "", 1))),
                hint.replaced(|url| {
                    let (before, after) = url.as_str().unwrap().rsplit_once("**").unwrap();
                    json!([before, after].concat())
                }),
            ]
        },
    },
    Kind {
        marks: &["where the value stands"],
        apply: |hint| {
            vec![hint.edited(|document| {
                let rules = hint.path.iter().position(|step| step == "rules").unwrap();
                let limit = at(document, &hint.path[..rules]);
                let name = *hint.all_words().last().unwrap();
                let named = |url: &str| {
                    let value = url.split('/').rfind(|word| !word.is_empty()).unwrap();
                    if url.contains(name) { url.into() } else { url.replacen(value, name, 1) }
                };
                limit["url"] = match &limit["url"] {
                    Value::Array(urls) => urls.iter().map(|url| named(url.as_str().unwrap())).collect(),
                    url => json!(named(url.as_str().unwrap())),
                };
            })]
        },
    },
    // Urls of which a part matches.
    Kind {
        marks: &["; a part matches by "],
        apply: |hint| {
            vec![hint.edited(|document| {
                let limit = at(document, hint.parent());
                let expression = expression(limit["url"].as_str().unwrap());
                limit["url"] = json!("/");
                limit["property"] = json!({"request.url_path": {"regex": expression}});
            })]
        },
    },
    // Hosts.
    Kind {
        marks: &["leave out the scheme and the path"],
        apply: |hint| {
            vec![hint.replaced(|host| {
                let host = host.as_str().unwrap();
                let host = host.split_once("://").map_or(host, |(_, host)| host);
                json!(host.split('/').next())
            })]
        },
    },
    Kind {
        marks: &["has a port, leave it out"],
        apply: |hint| vec![hint.replaced(|host| json!(host.as_str().unwrap().rsplit_once(':').unwrap().0))],
    },
    Kind {
        marks: &["write its `xn--` form"],
        apply: |hint| vec![hint.replaced(|_| json!("xn--bcher-kva.example"))],
    },
];

const SECRET: &str = "sixteen letters!";

/// A store.
pub fn store() -> Value {
    json!({"redis": {"cluster": "redis", "secret": SECRET}})
}

/// The steps of a path such as `limits[0].headers["a b"]`. A path in another document has none.
pub fn steps(path: &str) -> Vec<String> {
    if path.starts_with("the ") {
        return Vec::new();
    }
    let (mut steps, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        let (step, after) = if let Some(inner) = rest.strip_prefix("[\"") {
            inner.split_once("\"]").unwrap()
        } else if let Some(inner) = rest.strip_prefix('[') {
            inner.split_once(']').unwrap()
        } else {
            let inner = rest.strip_prefix('.').unwrap_or(rest);
            inner.split_at(inner.find(['.', '[']).unwrap_or(inner.len()))
        };
        steps.push(step.into());
        rest = after;
    }
    steps
}

/// The value at a path.
fn at<'a>(document: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(document, |value, step| match value {
        Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
        value => value.get_mut(step).unwrap_or_else(|| panic!("{path:?}")),
    })
}

/// Removes keys from all objects in a value.
fn remove_keys(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| remove_keys(item, keys)),
        Value::Object(object) => {
            object.retain(|key, _| !keys.contains(&key.as_str()));
            object.values_mut().for_each(|value| remove_keys(value, keys));
        }
        _ => {}
    }
}

/// Replaces a text in a value.
fn replace_text(value: &mut Value, text: &str, by: &str) -> bool {
    match value {
        Value::String(found) if found == text => {
            *found = by.into();
            true
        }
        Value::Array(items) => items.iter_mut().any(|item| replace_text(item, text, by)),
        Value::Object(object) => object.values_mut().any(|value| replace_text(value, text, by)),
        _ => false,
    }
}

fn define(document: &mut Value, name: &str, actor: Value) {
    let object = document.as_object_mut().unwrap();
    object.entry("actors").or_insert_with(|| json!({}))[name] = actor;
}

/// A path without `..`.
fn resolved(url: &str) -> String {
    let mut segments = Vec::new();
    for segment in url.split('/').skip(1) {
        match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    format!("{}/{}", if url.starts_with('=') { "=" } else { "" }, segments.join("/"))
}

/// The regular expression of a path in which `*` and names in braces stand for any characters of a
/// segment.
fn expression(url: &str) -> String {
    let (mut expression, mut is_name) = (String::new(), false);
    for character in url.trim_start_matches('=').chars() {
        match character {
            '*' | '{' => expression.push_str("[^/]*"),
            '}' | '/' => expression.push(character),
            _ if is_name => {}
            _ if character.is_alphanumeric() => expression.push(character),
            _ => expression.extend(['\\', character]),
        }
        is_name = character == '{' || is_name && character != '}';
    }
    expression.replace('}', "")
}

impl<'a> Hint<'a> {
    /// All words in backticks.
    fn all_words(&self) -> Vec<&'a str> {
        self.why.split('`').skip(1).step_by(2).collect()
    }

    fn parent(&self) -> &[String] {
        &self.path[..self.path.len() - 1]
    }

    fn edited(&self, edit: impl FnOnce(&mut Value)) -> Value {
        let mut document = self.document.clone();
        edit(&mut document);
        document
    }

    /// The document, edited in its full form.
    fn full(&self, edit: impl FnOnce(&mut Value)) -> Value {
        self.edited(|document| {
            if document.is_array() {
                *document = json!({"limits": document.take()});
            } else if document.get("url").is_some() {
                *document = json!({"limits": [document.take()]});
            }
            edit(document);
        })
    }

    fn replaced(&self, by: impl FnOnce(&Value) -> Value) -> Value {
        self.edited(|document| {
            let value = at(document, &self.path);
            *value = by(value);
        })
    }

    /// The document with the right word for a wrong one: a key, a text, or a name that a key is.
    fn respelt(&self) -> Value {
        let (before, _) = self.why.split_once(", did you mean").unwrap();
        let wrong = before.rsplit('`').nth(1).unwrap().trim_matches(['{', '}']);
        let right = self.words[0];
        self.edited(|document| {
            let rename = |object: &mut Map<String, Value>, wrong: &str| {
                let value = object.remove(wrong).unwrap();
                object.insert(right.into(), value);
            };
            if let Some(key) = self.key {
                rename(at(document, &self.path).as_object_mut().unwrap(), key);
            } else if !replace_text(at(document, &self.path), wrong, right) {
                let (last, parent) = self.path.split_last().unwrap();
                match at(document, parent).as_object_mut().filter(|_| last == wrong) {
                    Some(object) => rename(object, wrong),
                    None => assert!(replace_text(&mut document["actors"], wrong, right), "{}", self.why),
                }
            }
        })
    }

    /// The rule in which the mistake is.
    fn rule<'d>(&self, document: &'d mut Value) -> &'d mut Value {
        let place = self.path.iter().position(|step| step == "rules").unwrap();
        at(document, &self.path[..place + 2])
    }

    fn without_it(&self) -> Value {
        let (last, parent) = self.path.split_last().unwrap();
        self.edited(|document| match at(document, parent) {
            Value::Array(items) => drop(items.remove(last.parse().unwrap())),
            value => drop(value.as_object_mut().unwrap().remove(last)),
        })
    }

    /// The document without these keys: those in the rule of the mistake, or in its object.
    fn without(&self, keys: &[&str]) -> Value {
        let in_rule = self.path.iter().any(|step| step == "rules");
        self.edited(|document| match in_rule {
            true => remove_keys(self.rule(document), keys),
            false => {
                let object = self.path.iter().rposition(|step| keys.contains(&step.as_str())).unwrap();
                remove_keys(at(document, &self.path[..object]), keys);
            }
        })
    }

    fn without_each(&self, keys: &[&str]) -> Vec<Value> {
        keys.iter().map(|key| self.without(&[key])).collect()
    }

    fn without_either(&self) -> Vec<Value> {
        let (_, rest) = self.why.split_once("leave ").unwrap();
        let words: Vec<&str> = rest.split('`').skip(1).step_by(2).take(2).collect();
        self.without_each(&words)
    }

    /// The document with each of these algorithms, without the keys that others have.
    fn with_each_algo(&self, algos: &[&str]) -> Vec<Value> {
        let with = |algo: &&str| {
            self.edited(|document| {
                let rule = self.rule(document);
                remove_keys(rule, &["max_wait", "queue", "max_hold", "slices"]);
                if *algo != "TB" {
                    remove_keys(rule, &["warm_up", "burst"]);
                } else if self.why.contains("`warm_up`") {
                    remove_keys(rule, &["warm_up"]);
                }
                match *algo {
                    "C" => remove_keys(rule, &["unit"]),
                    _ => drop(rule.as_object_mut().unwrap().entry("unit").or_insert(json!("second"))),
                }
                rule["algo"] = json!(algo);
            })
        };
        algos.iter().map(with).collect()
    }

    /// The document in which the actor has another name.
    fn redefined(&self, name: &str) -> Value {
        self.edited(|document| {
            let actors = at(document, self.parent()).as_object_mut().unwrap();
            let actor = actors.remove(&self.path[1]).unwrap();
            actors.insert(name.into(), actor);
        })
    }
}
