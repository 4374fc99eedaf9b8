//! A broker on its own: `serve DATA_FOLDER HOST:PORT [sync|os] [key=value…]`. Prints its address, and ends cleanly at Ctrl-C.
//! `RUST_LOG=debug` tells what it does.

use atonce_broker::{Broker, Durability};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, address, rest @ ..] = &arguments[..] else {
        return Err("usage: serve DATA_FOLDER HOST:PORT [sync|os] [key=value…]".into());
    };
    let mut builder = Broker::builder().data_path(folder).listen(address);
    for argument in rest {
        builder = match (argument.as_str(), argument.split_once('=')) {
            ("sync", _) => builder.durability(Durability::Sync),
            ("os", _) => builder.durability(Durability::Os),
            (_, Some((key, value))) => builder.property(key, value),
            (other, None) => return Err(format!("what is {other}?").into()),
        };
    }
    let broker = builder.start().await?;
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{}", broker.bootstrap_servers())?;
    tokio::signal::ctrl_c().await?;
    broker.shutdown().await?;
    Ok(())
}
